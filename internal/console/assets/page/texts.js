// Every text that the console itself says.
const s = (/** @type {number} */ n, /** @type {string} */ one, many = one + 's') => n + ' ' + (n === 1 ? one : many)

export const T = {
  nav: {
    name: 'Pages', overview: 'Overview', workers: 'Workers', inbox: 'Inbox', history: 'Answers', boxes: 'Boxes', jobs: 'Tasks', sessions: 'Sessions', work: 'Plans and todos',
    workspaces: 'Workspaces', audit: 'Audit log', policy: 'Policy', upstreams: 'Upstreams', search: 'Search', browser: 'Browsers',
  },
  page: {
    skip: 'Skip to the content', home: 'belljar: first page', loading: 'Loading…', missingTitle: 'Page not found', missing: 'This server has no such page.',
  },
  login: {
    title: 'Log in', text: 'A link to log in works once, and for one minute. Print one on the machine of the server, and open it here:', link: 'Link, code or token',
    placeholder: 'http://127.0.0.1:8931/#…', go: 'Log in', out: 'Log out', ended: 'You are logged out.', noCode: 'Not a link, a code (26 letters and digits) or a token (bjp_…).',
    at: (/** @type {string} */ host) => 'Log in at ' + host,
    dead: 'The server does not accept this login any more. A login ends after 12 hours, and when the server ends.',
  },
  live: {live: 'Live', lost: 'No connection', hidden: 'Paused', out: 'Logged out'},
  server: {
    title: 'No answer', gone: 'The server does not answer.', now: 'Try now',
    lost: (/** @type {number} */ n) => `The server does not answer. Trying again in ${s(Math.max(1, n), 'second')}.`,
    missing: 'The data of these workers are missing here, because the workers do not answer, have too much data, or show nothing to consoles (belljar work --console): ',
    status: (/** @type {number} */ n) => `The server refused with status ${n}.`, strange: 'The server sent an answer that cannot be read.',
  },
  role: {
    viewer: 'You see everything and change nothing.', approver: 'Your role may not answer. `belljar console --role approver` prints a link for a role that may.',
    operator: 'Your role may not change this. `belljar console --role operator` prints a link for a role that may.',
  },
  verdict: {
    allow: 'allowed', ask: 'asked', deny: 'refused', approved: 'said yes', used: 'used', declined: 'said no', pending: 'waits', expired: 'expired', revoked: 'revoked',
    waiting: 'waits', accept: 'answered', decline: 'not answered', timeout: 'timed out', cancel: 'put away', running: 'runs', in_progress: 'in progress', ok: 'ok', broken: 'changed', unknown: 'unknown', failed: 'failed',
    added: 'new', modified: 'changed', deleted: 'deleted', live: 'in use',
  },
  time: {
    seconds: (/** @type {number} */ n) => n + ' s', minutes: (/** @type {number} */ n) => n + ' min', hours: (/** @type {number} */ h, /** @type {number} */ m) => m ? `${h} h ${m} min` : `${h} h`,
    days: (/** @type {number} */ n) => s(n, 'day'), ago: (/** @type {string} */ t) => t + ' ago', left: (/** @type {string} */ t) => t + ' left', over: 'over',
  },
  text: {
    hidden: (/** @type {string} */ c) => `the character ${c}, which is invisible, or changes how other characters look`, more: (/** @type {number} */ n) => `Show more (${n} characters)`,
    punyIn: (/** @type {string} */ h) => `A name in it is ${h} on the network.`, puny: (/** @type {string} */ h) => `is ${h} on the network`, noHost: 'not a host name',
  },
  field: {
    tenant: 'Tenant', worker: 'Worker', session: 'Session', workspace: 'Workspace', record: 'Record', state: 'State', what: 'What', by: 'Who', when: 'When', action: 'Action', tool: 'Tool', decision: 'Decision',
  },
  command: {
    label: 'On the command line', atWorker: 'at the machine of the worker', yes: 'To allow it once', no: 'To refuse it', copy: 'Copy', copyName: (/** @type {string} */ c) => 'Copy ' + c, copied: 'Copied.', notCopied: 'The browser did not allow that.', word: 'NAME',
  },
  agent: {hidden: 'This text has characters that are invisible, or that change how other characters look. They are shown as codes.'},
  confirm: {cancel: 'Cancel'},
  inbox: {
    list: 'What waits, the newest first', later: 'Put off', none: 'Nothing waits for you.', noneHint: 'A call appears here if a person must decide about it. Questions of agents also appear here.',
    question: 'Question', pin: 'Upstream', back: 'Back to the inbox', choosePrompt: 'Choose what you want to read.', arrived: 'Something new waits in the inbox.',
    waits: (/** @type {number} */ n) => `${n} waiting`, more: (/** @type {number} */ n) => `${n} more wait. They appear when some of these are answered.`, choose: (/** @type {string} */ id) => `Choose ${id}`,
    many: (/** @type {number} */ n) => `Refuse ${n} chosen`, manyTitle: (/** @type {number} */ n) => `Refuse ${s(n, 'call')}?`, manyText: 'The agents are told that a person said no. To allow, read each call by itself.',
    manyDone: (/** @type {number} */ n) => `${s(n, 'call')} refused.`,
  },
  approval: {
    title: () => 'May this run? ', frame: 'Written by the agent. Nobody has checked it.', commands: 'Commands', script: 'The script as written', args: 'Arguments', whole: 'All arguments', acts: 'Does', hosts: 'Hosts and URLs',
    writes: 'Writes', reads: 'Reads', sets: 'Sets', dir: 'Begins in', stdin: 'Input', files: 'Files', paths: 'Paths', grants: 'A yes also lets these run',
    left: (/** @type {number} */ n, /** @type {string} */ sum) => `${s(n, 'further line')} are not shown${sum ? ' (sha256 ' + sum.slice(0, 16) + ')' : ''}.`, unsure: 'That may not be all:',
    why: 'Why you are asked', rule: 'Rule', reason: 'Reason', profile: 'Profile', principal: 'Caller', asked: 'Asked', expires: 'Time', record: 'In the audit log', noRecords: 'The log has no record of it any more.', moreRecords: 'There may be more records than these:',
    by: 'by', via: (/** @type {string} */ v) => `(${v})`, until: 'until', uses: (/** @type {number} */ n) => `used ${s(n, 'time')}`, past: 'Earlier answers to calls like this', noPast: 'No call of this tool was answered under this rule.',
    revoke: 'Revoke the yes', revoked: 'The yes was revoked.',
  },
  scope: {once: 'for this call', session: 'until the session ends', hours: 'for some time'},
  answer: {
    title: 'Your answer', note: 'Note for the agent', noteHint: 'The agent reads it. It may be empty.', noteWas: 'Note', no: 'No', once: 'Allow once', later: 'Later',
    saidNo: 'You said no.', saidYes: 'You allowed it once.', putOff: 'Put off. It is not answered, and comes back a minute before its time is over.',
    remembered: (/** @type {string} */ w) => 'You allowed it ' + w, lateTitle: 'Your answer did not count', late: 'It was answered elsewhere, or the question has changed.',
  },
  remember: {
    open: 'Remember a yes…', legend: (/** @type {string} */ tool) => `For which calls of ${tool} is the yes?`, session: 'for calls that look the same, until this session ends (24 hours at most)', hours: 'for calls that look the same, for', hoursName: 'How long',
    same: 'Calls look the same if they have the same commands and arguments, the same workspace and the same policy. Nobody is asked about them again.', yes: 'Allow and remember', choose: 'First choose what the yes is for.',
    forTime: (/** @type {string} */ t) => 'for calls that look the same, for ' + t + '.', never: 'The policy allows a yes for this call only.',
  },
  question: {
    title: 'An agent asks', frame: 'Asked by the agent. It does not speak for belljar.', yours: 'Your answer', one: 'Choose one', many: 'Choose any number', else: 'Or in your words', own: (/** @type {number} */ n) => `Question ${n}, in your words`,
    recommended: 'recommended by the agent', decline: 'Do not answer', send: 'Send the answer', declined: 'You declined to answer.', sent: 'The agent gets your answer.', empty: 'There is no answer yet: choose, or write one.',
  },
  pin: {
    title: 'Is this trusted?', frame: 'Written by the upstream server. Nobody has checked it.', upstream: 'Upstream', what: 'Change', since: 'Trusted before', findings: 'This looks as if it were made to deceive:',
    means: 'Until you decide, agents do not get this definition.', no: 'Refuse it', yes: 'Trust it', refused: 'The definition was refused.', trusted: 'The definition is trusted.', gone: 'This version no longer waits for a decision.',
  },
  diff: {name: 'Comparison', cut: 'The comparison is longer than what is shown here.'},
  history: {all: 'all', filter: {q: 'Text', state: 'State', tenant: 'Tenant', by: 'Who'}, older: 'Older answers', cut: 'Older questions of agents are in the audit log only.', none: 'No answer matches.', record: 'Record', recordOf: (/** @type {string} */ id) => `Record of ${id}`, kept: 'Answers are kept here for seven days, and in the audit log as long as the log is kept.'},
  boxes: {
    box: 'Box', browser: 'browser', memory: 'Memory', memoryOf: (/** @type {string} */ id) => `Memory of ${id} over time`, unknown: 'not known', jobs: 'Tasks', ports: 'Ports', cpu: 'Processor', more: 'Also', cpuOf: (/** @type {string} */ id) => `Processor time of ${id} over time`, percent: (/** @type {number} */ n) => n + ' %', limit: (/** @type {string} */ b) => `of ${b}`,
    processes: (/** @type {number} */ n) => s(n, 'process', 'processes'), network: (/** @type {string} */ b) => `${b} over the network`, disk: (/** @type {string} */ b) => `${b} stored`, none: 'No box is open.', hint: 'A session opens a box when it needs one. What runs in it ends with it.',
    listens: (/** @type {string} */ p) => `listens at ${p}`, published: (/** @type {number} */ p, /** @type {string} */ at) => `${p} is at ${at}`,
    kill: 'End', killName: (/** @type {string} */ id) => `End the box ${id}`, killTitle: 'End this box?', killText: (/** @type {number} */ n) => `All that runs in it is killed${n ? ', with ' + s(n, 'task') : ''}. Its session continues, and gets another box at its next call. On the command line, only the whole session can be ended.`, killBrowser: 'Its browser is killed. An agent that uses it gets another one, without its logins.', killYes: 'End the box', killed: 'The box has ended.',
  },
  sessions: {
    client: 'Client', began: 'Began', used: 'Last call', running: 'Calls now', none: 'No agent is connected.', calls: 'Its calls', end: 'End', endName: (/** @type {string} */ id) => `End the session ${id}`,
    endTitle: 'End this session?', endText: 'Its calls are cancelled and its boxes are killed. The agent is told.', endYes: 'End the session', ended: 'The session has ended.',
  },
  jobs: {
    task: 'Task', started: 'Started', none: 'No task runs in the background.', hint: 'Tasks of open boxes. The records of others are in the audit log.', back: 'All tasks', frame: 'Command of the agent', frame2: 'Written by the program', output: 'Output', outputOf: (/** @type {string} */ id) => `Output of task ${id}`,
    exit: 'Exit status', gone: 'The box of this task is gone, and its output with it.', stop: 'Stop', stopName: (/** @type {number} */ id) => `Stop task ${id}`, stopTitle: 'Stop this task?', stopYes: 'Stop it', stopped: 'The task was stopped.',
  },
  output: {
    none: 'There is no output.', cut: 'Earlier output is not shown here.', where: (/** @type {string} */ a, /** @type {string} */ b) => `Up to ${a} of ${b}.`, skipped: (/** @type {string} */ n) => `The first ${n} are not kept any more.`, end: 'The program has ended.', earlier: 'Earlier', later: 'Further', newest: 'Follow the newest',
  },
  player: {
    title: 'Recording', load: 'Play the recording', name: 'Recording of the call', frame: 'Written by the program', play: 'Play', pause: 'Pause', seek: 'Moment', speed: 'Speed', time: (/** @type {string} */ a, /** @type {string} */ b) => `${a} of ${b}`, cut: (/** @type {string} */ a, /** @type {string} */ b) => `Only the first ${a} are shown here. The recording has ${b}.`, incomplete: 'The recording is incomplete:', lost: (/** @type {string} */ n) => `${n} of the output are missing at its end.`, lostUnknown: 'How much of the output is missing is not known.',
  },
  audit: {
    kind: 'Kind', none: 'No record matches.', older: 'Older records', cut: 'The search took too long: there may be more.', follow: 'Follow new records', recordName: (/** @type {number} */ n) => `Record ${n}`, took: (/** @type {number} */ ms) => ms < 1000 ? ms + ' ms' : (ms / 1000).toFixed(1) + ' s', ms: 'Took',
    filter: {q: 'Text', tool: 'Tool', decision: 'Decision', kind: 'Kind', tenant: 'Tenant', session: 'Session', rule: 'Rule', upstream: 'Upstream'},
    okAll: 'The logs of all workers are as they were written.', ok: (/** @type {number} */ n) => `The log is as it was written, up to record ${n}.`, broken: (/** @type {number} */ n) => `The log was changed at record ${n}.`, unknown: 'It is not known yet whether the log is as it was written.', checked: 'Verified at',
    back: 'All records', number: 'Number', call: 'Call', sameCall: 'All records of this call', explain: 'What the policy decides about this call now', whole: 'All details', frame: 'As in the log. The agent wrote the commands and arguments.',
  },
  policy: {
    file: 'File', since: 'Read', sum: 'Digest', refused: 'The file has changed, and cannot be used:', used: 'Rules that decided', place: 'Place', calls: 'Calls', last: 'Last', unused: 'No rule has decided since the server began.', text: 'The file', hits: (/** @type {number} */ n) => s(n, 'call'),
    explain: 'What would it say?', explainHint: 'Nothing runs.', explainRun: 'Explain', args: 'Arguments (JSON)', profile: 'Profile asked for', notJSON: (/** @type {string} */ e) => `The arguments are not JSON: ${e}`, byRule: 'by', was: 'then', lacks: 'The record does not have all of the call:', instead: 'Instead', granted: 'Granted', remember: 'A yes may be for', via: 'started by', silent: '(its condition does not hold)', unsure: '(may match)',
    replay: 'What would another policy have said?', replayHint: 'The newest 20,000 calls of the log are decided again, under the policy in force and under this one. Nothing runs, and nothing changes.', proposed: 'Proposed policy', replayRun: 'Compare', replaying: 'Comparing…', bad: 'This is not a policy:',
    changed: (/** @type {number} */ n, /** @type {number} */ all) => n === 0 ? `Nothing would change: ${s(all, 'call')} compared.` : `${s(n, 'call')} of ${all} would be decided differently.`, older: 'The log has older calls, which were not looked at.', skipped: (/** @type {number} */ n) => `${s(n, 'call')} left out:`, nCalls: (/** @type {number} */ n) => s(n, 'call'), examples: 'Calls of agents',
  },
  sets: {
    set: 'Set', changes: 'Changes', created: 'Began', none: 'No box has changes that wait beside its workspace.', cut: 'There are more sets than these. The command line lists all.', hint: 'In an overlay workspace, the changes of a box are kept beside the workspace. They reach the workspace when you apply them.', back: 'All sets', files: 'Changed files', choose: 'Choose a file to see what was changed.', unchanged: 'Nothing is changed in it.',
    take: (/** @type {string} */ p) => `Take ${p}`, count: (/** @type {number} */ n, /** @type {number} */ m) => `${s(n, 'change')}, ${m} chosen.`, applyAll: 'Apply all', applySome: (/** @type {number} */ n) => `Apply ${n} chosen`, discard: 'Discard all', no: 'not applied', conflicts: 'conflict',
    refused: 'This would not be applied:', conflict: 'The workspace has changed as well:', frame: 'Written by the agent', binary: 'The file is not text.', noText: 'There is no text to compare.', live: 'A box is using this set, so there may be more changes by now.',
    type: (/** @type {string} */ a, /** @type {string} */ b) => `${a} became ${b}`, mode: (/** @type {string} */ a, /** @type {string} */ b) => `mode ${a} became ${b}`, linked: 'linked to',
    more: (/** @type {number} */ n) => `Show more (${n})`, left: (/** @type {number} */ n) => `${n} more are not listed.`, tooMany: (/** @type {number} */ n) => `At most ${n} are taken at once. Choose fewer, or all.`,
    stale: 'It has changed since you read it. Nothing was done.', again: 'Read again', applyTitle: (/** @type {number} */ n) => `Apply ${s(n, 'change')}?`, applyText: (/** @type {string} */ base) => `They are written into ${base}.`, applyYes: 'Apply', applied: (/** @type {number} */ n) => `${s(n, 'change')} applied.`,
    discardTitle: 'Discard all changes?', discardText: (/** @type {number} */ n) => `${s(n, 'change')} and all checkpoints of the set are deleted. This cannot be undone.`, discardYes: 'Discard', discarded: 'The changes were discarded.',
  },
  upstreams: {
    login: 'Log in', loginName: (/** @type {string} */ n) => `Log in at ${n}`, loginTitle: 'Log in at this server?', loginServer: 'Server', loginAddress: 'Its address', loginIssuer: 'Authorization server', loginTo: 'You go to', loginGo: 'Go there',
    loginText: 'You leave this page, log in there and come back. Agents of this tenant can then use what you allow there.', loginStrange: 'The server names a login address that does not begin with http:// or https://.', loggedIn: (/** @type {string} */ n) => `Logged in at ${n}. The server uses the login after its next start; restart it to use the login now.`,
    reason: 'Reason', since: 'Since', starts: 'Starts', next: 'Next start', tools: 'Tools', toolsAre: (/** @type {number} */ n, /** @type {string} */ b) => `${n} (${b} of the list)`, file: 'File', untrusted: 'an agent can write it', hides: 'Replaces', pins: 'Pins', held: (/** @type {number} */ n) => s(n, 'definition') + ' held', stderr: 'What it wrote to standard error', faultFrame: 'About a file that an agent may have written', frame: 'Written by the upstream server',
    restart: 'Restart', restartName: (/** @type {string} */ n) => `Restart ${n}`, restartTitle: 'Restart this server?', restartText: (/** @type {number} */ n) => `All its instances end and start again${n ? '; ' + s(n, 'call') + ' would fail' : ''}.`, restarted: (/** @type {number} */ n) => s(n, 'instance') + ' restarted.', none: 'No upstream server is configured.',
    own: (/** @type {number} */ n, /** @type {string} */ b) => `Beside ${n} tools of its own (${b}), in`, more: (/** @type {number} */ n) => `${n} more are not shown.`,
  },
  search: {engine: 'Engine', outcome: 'Last answer', since: 'When', retry: 'Asked again in', slow: 'Slowest', none: 'No engine is configured.', test: 'Ask it', testName: (/** @type {string} */ n) => `Ask ${n}`, testTitle: 'Ask this engine now?', testText: 'One harmless query leaves this machine.', results: (/** @type {number} */ n) => s(n, 'result'), last: 'Last answers', lastOf: (/** @type {string} */ n) => `Times of the last answers of ${n}`, picture: 'The slowest of the last answers', hint: 'No engine is asked for this page.'},
  browser: {
    boxes: 'Boxes with a browser', none: 'No box has a browser.', pool: (/** @type {number} */ n) => 'Browsers that read pages' + (n > 1 ? ` (${n})` : ''), busyOf: 'Pages in use', busy: (/** @type {number} */ a, /** @type {number} */ b) => `${s(a, 'page')} in use, ${b} warm`, chromes: 'Browsers', pages: 'Pages read', started: 'Started', recycled: 'Replaced', died: 'Died', hung: 'Hung',
    seats: 'Browsers that agents use', noSeats: 'No agent uses a browser.', tabs: 'Tabs', show: 'Show', showName: (/** @type {string} */ id) => `Show what the browser ${id} shows`, shows: (/** @type {string} */ id) => `What the browser ${id} shows`, frame: 'Drawn by a page of the web',
    held: 'Stopped by', hold: 'Stop', holdName: (/** @type {string} */ id) => `Stop the agent in the browser ${id}`, release: 'Resume', releaseName: (/** @type {string} */ id) => `Resume the agent in the browser ${id}`,
  },
  work: {
    todos: 'Todos', noTodos: 'No agent has a todo.', plans: 'Plans', noPlans: 'No plan is saved.', callbacks: 'Callbacks', noCallbacks: 'No callback is set.', frame: 'Written by the agent', stepsOf: 'Steps done', steps: (/** @type {number} */ a, /** @type {number} */ b) => `${a} of ${s(b, 'step')} done`, isDone: 'Done: ', isOpen: 'Open: ', times: (/** @type {number} */ n) => s(n, 'time') + ' more', more: (/** @type {number} */ n) => `${n} more are not shown.`,
  },
  workers: {none: 'No worker is linked.', version: 'Version', linked: 'Linked', places: 'Places', calls: 'Requests now', hint: 'Workers that are linked to this front.'},
  chart: {table: 'As a table', below: 'The table below has the same.', bar: (/** @type {string} */ at, /** @type {number} */ n, /** @type {string} */ what) => `${at}: ${n} ${what}`, time: 'Time'},
  overview: {
    waits: 'wait for you', running: 'Tasks running', refused: 'Refused, last hour', calls: 'Calls of the last hour', noCalls: 'No call yet.', quotas: 'Quotas of tenants', noTenants: 'No tenant has a quota.', noQuota: 'No quota.', memory: 'Memory of boxes', noBoxes: 'No box is open.', moreBoxes: (/** @type {number} */ n) => `${n} more boxes.`, server: 'This server', since: 'Started', version: 'Version', pid: 'Process',
    of: (/** @type {string} */ a, /** @type {string} */ b) => `${a} of ${b}`, most: (/** @type {string} */ b) => `at most ${b}`, anHour: ' an hour', aSecond: ' a second',
  },
}
