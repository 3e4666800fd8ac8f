package boxinit

const sysSeccomp = 317 // seccomp(2)
