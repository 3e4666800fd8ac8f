package boxinit

const sysGetcpu = 168 // which package syscall lacks on some architectures
