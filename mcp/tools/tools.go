package tools

import (
	"log/slog"
	"time"

	"belljar.dev/browser/picture"
	"belljar.dev/mcp"
)

// Add registers the tools and their resources. It returns an Operator, with which the
// operator of the server sees and ends background tasks. Like mcp.AddTool it panics if two
// tools have the same name.
func Add(s *mcp.Server, b Backends) *Operator {
	if b.Log == nil {
		b.Log = slog.New(slog.DiscardHandler)
	}
	sh := newShells(b)
	addShells(s, sh)
	addSearch(s, &searches{b})
	pictures := &images{shells: sh, maker: picture.New(imagesAtOnce)}
	if b.Browser != nil {
		pictures.drawer = b.Browser
	}
	addImages(s, pictures)
	addDocs(s, &docs{b, pictures})
	if b.Browsers != nil {
		addBrowsers(s, &browsers{backends: b, shells: sh, open: make(map[string]*browserSeat)})
	}
	addTodos(s, &todos{backends: b})
	addPlans(s, &plans{backends: b, shells: sh, now: time.Now})
	addAsk(s, &asks{backends: b, wait: askWait})
	addSkills(s, &skillTools{s, b})
	addCallbacks(s, &callbacks{s, b})
	if b.Toolkit {
		addAnalyses(s, sh)
		addTemplates(s)
	}
	return &Operator{sh}
}

func newShells(b Backends) *shells {
	s := &shells{backends: b, open: make(map[string][]*shell)}
	s.tasks = newTasks(s)
	return s
}

// addShells registers the tools that share a session's box.
func addShells(s *mcp.Server, sh *shells) {
	mcp.AddTool(s, mcp.Tool{
		Name:        "Bash",
		Brief:       "runs a bash script and waits for it; the working directory is kept, the environment is not",
		Title:       "Run a command",
		Description: "Runs a bash script in this session's sandbox and waits for it. The working directory is kept between calls, the environment is not. Long output loses its middle; the full text stays readable as the resource output://ID. The last line of the result is for programs: [belljar exit=0 ...].",
		Destructive: true,
		Output:      bashOutput{},
	}, sh.bash)
	mcp.AddTool(s, mcp.Tool{
		Name:        "BackgroundBash",
		Brief:       "starts a script in the background",
		Title:       "Start a background task",
		Description: "Starts a bash script in this session's sandbox and returns its task_id immediately. ReadBgOutput shows what it writes, ListBgTasks all tasks, KillBgTask ends it.",
		Destructive: true,
		Output:      backgroundOutput{},
	}, sh.background)
	mcp.AddTool(s, mcp.Tool{
		Name:        "ReadBgOutput",
		Brief:       "shows what a background task wrote since the last read",
		Title:       "Read a background task's output",
		Description: "Shows what a background task wrote since the last read, and its status. With id it shows the state of an approval that a call waits for. wait_ms waits for something new.",
		ReadOnly:    true,
		Output:      readOutput{},
	}, sh.readOutput)
	mcp.AddTool(s, mcp.Tool{
		Name:        "ListBgTasks",
		Brief:       "lists the background tasks",
		Title:       "List background tasks",
		Description: "Lists the background tasks of this session with their status, runtime and unread output.",
		ReadOnly:    true,
		Idempotent:  true,
		Output:      listOutput{},
	}, sh.list)
	mcp.AddTool(s, mcp.Tool{
		Name:        "KillBgTask",
		Brief:       "ends a background task and all it started",
		Title:       "End a background task",
		Description: "Ends a background task and all it started: TERM first, KILL after grace_ms. Shows the output that was not read yet.",
		Destructive: true,
		Idempotent:  true,
		Output:      killOutput{},
	}, sh.kill)
	if sh.backends.Jobs != nil {
		s.KeepTasks(sh.tasks)
	}
	s.SurveyWith(sh)
	s.AddResource(sh.outputResource())
	s.AddResource(sh.jobResource())
	f := &files{sh}
	s.AddResource(f.root())
	s.AddResource(f.resource())
	addPrompts(s, sh)
}
