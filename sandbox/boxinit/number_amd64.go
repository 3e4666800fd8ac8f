package boxinit

const sysGetcpu = 309 // package syscall lacks it on some architectures
