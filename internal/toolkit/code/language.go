package code

// Language is one that a file is written in.
type Language string

// The languages with functions. Others have lines, comments and tokens only.
const (
	Go         Language = "go"
	Rust       Language = "rust"
	Python     Language = "python"
	TypeScript Language = "typescript"
	TSX        Language = "tsx"
	JavaScript Language = "javascript" // with JSX
	C          Language = "c"
	CPP        Language = "cpp"
	Java       Language = "java"
	Shell      Language = "shell" // functions without metrics
	Other      Language = ""
)
