package boxinit

const sysGetcpu = 309 // which package syscall lacks on some architectures
