package policies

// risk is a group of programs that seem to only read, but have options that write a file,
// run something or send something.
type risk struct {
	programs string
	options  string // the best known options of these programs
	why      string
}

var risks = []risk{
	{"git", "-c --config-env --exec-path --output --ext-diff --textconv --upload-pack --receive-pack --open-files-in-pager -O --exec -x", "git has options that run a program (-c core.pager=X, --ext-diff, -O) and that write a file (--output)"},
	{"find", "-exec -execdir -ok -okdir -delete -fprint -fprintf -fprint0 -fls", "find has options that run programs (-exec), remove (-delete) and write files (-fprint)"},
	{"sort", "-o --output --compress-program -T", "sort has options that write a file (-o) and that run a program (--compress-program)"},
	{"rg", "--pre --hostname-bin -z --search-zip", "rg has options that run a program (--pre, --hostname-bin)"},
	{"grep egrep fgrep zgrep", "-f --file", "grep has options that read further files (-f), whose lines its errors show"},
	{"sed gsed", "-i --in-place -e -f --expression --file", "a program of sed can run others (e) and write files (w), and -i writes its operands"},
	{"tar bsdtar", "--to-command --checkpoint-action --use-compress-program -I --rsh-command --absolute-names -P", "tar has options that run a program (--to-command, --checkpoint-action, -I), and writes where an archive says"},
	{"go", "-exec -toolexec -o -modfile -overlay -vettool -C", "go has options that run a program (-exec, -toolexec, -vettool), and its tests are programs"},
	{"cargo rustc", "--config -C --manifest-path", "cargo has options that name a linker, a wrapper or another manifest (--config)"},
	{"npm pnpm yarn npx bunx", "--script-shell --prefix --node-options --call -c", "npm has options that name a shell (--script-shell) and that run what they are given (-c)"},
	{"pip pip3 uv poetry", "--index-url -i --extra-index-url --target --editable -e --config-settings", "pip has options that fetch from elsewhere (--index-url), and what is installed runs"},
	{"make gmake", "--eval -f --file -C --directory -I SHELL", "make runs what its file says, and has options that name another file or hold a rule (--eval, -f)"},
	{"cmake ctest ninja meson", "-P -C -D -E -f --build-and-test", "these run what a file says that an option names (-P, -f)"},
	{"mvn mvnw gradle gradlew ant sbt", "-D -P -I --init-script -f -b", "these have options that name another file to run (-f, --init-script) or a property that holds a command (-D)"},
	{"curl", "-o -O --output -T --upload-file -K --config -d --data -F --proxy -x", "curl has options that write files (-o), send them (-T, -d @FILE) and read its settings elsewhere (-K)"},
	{"wget", "-O --output-document --post-file --use-askpass -e --execute --input-file -i", "wget has options that write and send files (-O, --post-file) and run a program (--use-askpass)"},
	{"rsync", "-e --rsh --rsync-path --files-from", "rsync has options that run a program (-e, --rsync-path)"},
	{"scp sftp", "-S -o -F -J", "scp has options that run a program (-S, -o ProxyCommand)"},
	{"diff cmp", "--to-file --from-file --output", "diff reads any file that it is given"},
	{"tree", "-o --fromfile", "tree has an option that writes a file (-o)"},
	{"less more most man", "-o -O -P -H --pager --log-file", "pagers run commands that their keys and options name"},
	{"zip unzip 7z", "-TT --unzip-command -o -d", "zip has an option that runs a program (-TT), and unzip writes where the archive says"},
	{"xxd hexdump od", "-r", "xxd has an option that writes a file (-r)"},
	{"date", "-s --set -f --file", "date has options that set the clock (-s) and show lines of a file (-f)"},
	{"pytest py.test tox nox", "-p -c --rootdir --confcutdir -o", "pytest loads what an option names (-p, -c), and tests are programs"},
	{"eslint prettier tsc jest vitest mocha", "-c --config --plugin --rulesdir --require -r --resolve-plugins-relative-to", "these load programs that an option names (--config, --plugin, --require)"},
	{"docker podman nerdctl", "-v --volume --mount --privileged -H --host --pid --network", "docker has options that show a container all of the host (-v, --privileged)"},
	{"kubectl helm terraform tofu", "--kubeconfig --post-renderer -chdir --token", "these have options that run a program or name other credentials (--kubeconfig, --post-renderer)"},
	{"gcc g++ cc c++ clang clang++ ld", "-o -wrapper -fplugin -B -specs", "compilers have options that run a program (-wrapper, -fplugin, -B) and write anywhere (-o)"},
	{"hg svn", "--config --config-option --config-file --diff-cmd --editor-cmd", "hg and svn have options that run a program (--config, --diff-cmd)"},
	{"jq yq", "-f --from-file -L -i --in-place --rawfile --slurpfile", "jq reads any file that an option names, and yq -i writes"},
	{"tee cp mv ln install dd truncate split csplit shred", "of -t --target-directory --backup -S --filter", "these write or remove the files that their operands name"},
	{"file", "-C --compile -m --magic-file", "file has options that write a file (-C) and read another (-m)"},
}

// riskyEnv are examples of variables that make programs run or load the files that
// they name. `policy lint` tries them against the patterns of a rule that allows.
// The table of shell.EffectOf cannot serve here, because it has prefixes of names
// (GIT_, PYTHON), and a pattern is tried with whole names. riskyEnv also has
// variables that run nothing but say where data goes, such as proxies.
// TestRiskyVariablesAreKnown compares both.
var riskyEnv = []string{
	"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "SHELL", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESSOPEN", "LESSCLOSE",
	"GIT_SSH_COMMAND", "GIT_SSH", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_ASKPASS", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_EXEC_PATH",
	"CC", "CXX", "GOFLAGS", "RUSTC", "RUSTC_WRAPPER", "RUSTFLAGS", "CARGO_BUILD_RUSTC_WRAPPER", "MAKEFLAGS", "NODE_OPTIONS", "NODE_PATH", "npm_config_script_shell", "NPM_CONFIG_SCRIPT_SHELL",
	"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS", "TAR_OPTIONS", "RSYNC_RSH", "PROMPT_COMMAND", "PS4",
	"HOME", "XDG_CONFIG_HOME", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "DOCKER_HOST", "KUBECONFIG", "SSH_AUTH_SOCK",
}

// sharedHosts are domains below which strangers have their own sites.
var sharedHosts = []string{
	"github.io", "gitlab.io", "githubusercontent.com", "codeberg.page", "pages.dev", "workers.dev", "r2.dev", "vercel.app", "netlify.app", "herokuapp.com", "fly.dev", "onrender.com", "railway.app",
	"web.app", "firebaseapp.com", "firebaseio.com", "appspot.com", "run.app", "cloudfunctions.net", "googleapis.com", "amazonaws.com", "s3.amazonaws.com", "cloudfront.net", "awsapprunner.com", "on.aws",
	"azurewebsites.net", "azureedge.net", "core.windows.net", "blob.core.windows.net", "digitaloceanspaces.com", "backblazeb2.com", "wasabisys.com", "supabase.co", "ngrok.io", "ngrok.app", "ngrok-free.app", "trycloudflare.com", "localhost.run",
	"blogspot.com", "wordpress.com", "tumblr.com", "weebly.com", "wixsite.com", "glitch.me", "repl.co", "replit.app", "surge.sh", "neocities.org", "co.uk", "com.au", "co.jp", "com.br",
}

// netPrograms are programs that a rule denies in order to keep something from leaving.
const netPrograms = "curl wget http https ssh scp sftp rsync nc ncat netcat socat telnet ftp lftp aria2c git gh glab npm pnpm yarn cargo twine docker podman nslookup dig host ping"

// writers are programs that a rule denies in order to keep something from being changed.
const writers = "rm rmdir mv cp dd chmod chown chgrp truncate shred unlink ln tee install mkfs mount umount"
