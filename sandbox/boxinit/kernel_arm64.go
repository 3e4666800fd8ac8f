package boxinit

const sysSeccomp = 277 // seccomp(2)
