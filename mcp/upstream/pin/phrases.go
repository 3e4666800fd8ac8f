package pin

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"belljar.dev/internal/printable"
	"golang.org/x/text/unicode/norm"
)

// phrase is a phrase that is typical of deceptive texts.
type phrase struct {
	what string
	// match can only match a folded text that contains a word of each group. The groups
	// make the scan of ordinary texts cheap: most texts lack the words of some group.
	words  [][]string
	match  *regexp.Regexp // matches a folded text
	unless *regexp.Regexp // if it matches the 60 bytes before a match, the phrase means the opposite
	also   *regexp.Regexp // if not nil, it must match the folded text too
}

// phrases are phrases of poisoned definitions, in English and Chinese. Concealment from the
// user comes first, because most of the known poisoned definitions contain it.
var phrases = sync.OnceValue(func() []phrase {
	var all []phrase
	add := func(what, words, unless, also string, patterns ...string) {
		p := phrase{what: what, match: regexp.MustCompile(strings.Join(patterns, "|"))}
		for group := range strings.SplitSeq(words, "+") {
			p.words = append(p.words, strings.Split(strings.TrimSpace(group), "|"))
		}
		if unless != "" {
			p.unless = regexp.MustCompile(unless)
		}
		if also != "" {
			p.also = regexp.MustCompile(also)
		}
		all = append(all, p)
	}
	const people = `(?:users?|humans?|persons?|people|operators?|customers?|owners?|anyone|anybody)\b`
	const no, whom = `not|n't|dont|never|avoid|refrain|no need`, `user|human|person|people|operator|customer|owner|anyone|anybody`
	add("concealment", no+"+ tell|inform|mention|notif|reveal|disclos|alert|warn|report +"+whom, "", "",
		`\b(?:do not|don'?t|never|must not|mustn'?t|should not|shouldn'?t|avoid|refrain from|no need to|not to)\b[^.!?]{0,40}\b(?:tell|telling|inform|informing|mention|mentioning|notify|notifying|reveal|revealing|disclose|disclosing|alert|alerting|warn|warning|report|reporting)\b[^.!?]{0,60}\b`+people)
	add("concealment", no+"+ this|these| it| that|the following|any of", "", "",
		`\b(?:do not|don'?t|never|must not|avoid)\b (?:mention|tell|reveal|disclose|show|display|expose|discuss|explain|acknowledge|log)(?:ing)? (?:this|these|it|that|the following|any of (?:this|it|these))\b`)
	add("concealment", no+"+ let +"+whom, "", "",
		`\b(?:do not|don'?t|never)\b[^.!?]{0,20}\blet\b[^.!?]{0,30}`+people+`[^.!?]{0,20}\b(?:know|see|notice|find out)\b`)
	add("concealment", "not|never|n't +"+whom, "", "",
		`\b`+people+` (?:must|should|shall|will|need|does|do|is|are|can|may) ?(?:not|never|n'?t)\b (?:to )?(?:know|see|be (?:told|informed|aware|notified|shown)|notice|find out|aware)`)
	add("concealment", "hide|conceal|withhold|keep +from +"+whom, "", "",
		`\b(?:hide|conceal|withhold|keep)\b[^.!?]{0,40}\b(?:from|hidden from|secret from)\b[^.!?]{0,15}\b`+people)
	add("concealment", "secret|hidden|confidential|yourself|between us|covert|surreptitious|stealth|silently|quietly|discreetly|invisible", "", "",
		`\bkeep (?:this|it|that|these)\b[^.!?]{0,20}\b(?:secret|hidden|confidential|to yourself|between us)\b`,
		`\b(?:secretly|covertly|surreptitiously|stealthily)\b`,
		`\b(?:silently|quietly|discreetly) (?:send|forward|copy|upload|include|attach|read|add|bcc|call|pass|append|run|execute|collect|invoke)`,
		`\bthis (?:step|action|call|request|instruction) (?:is|must (?:be|stay|remain)|should (?:be|stay|remain)) (?:hidden|invisible|secret|confidential)\b`)
	add("concealment", "用户|用戶|使用者|客户|客戶|人类|人類|任何人|操作员|悄悄|偷偷|暗中|秘密", "", "",
		`(?:不要|别|別|勿|不得|不可|不能|禁止|无需|無需|不必|避免|不用|无须)[^。!?]{0,12}(?:告诉|告訴|告知|通知|提及|提到|透露|泄露|洩露|说明|說明|提醒|汇报|报告|让|讓|向|对|對|使)[^。!?]{0,8}(?:用户|用戶|使用者|客户|客戶|人类|人類|任何人|操作员)`,
		`(?:对|對|向|瞒着|瞞著|背着|背著)(?:用户|用戶|使用者)[^。!?]{0,6}(?:保密|隐瞒|隱瞞|隐藏|隱藏)|瞒着用户|瞞著使用者|(?:悄悄|偷偷|暗中|秘密)地?(?:发送|發送|上传|上傳|读取|讀取|调用|執行|执行|复制|附加|转发)`)
	add("concealment", "without +"+whom, `\b(?:never|not|don'?t|cannot|avoid|nothing|no)\b[^.!?]*$`, "",
		`\bwithout\b[^.!?]{0,25}\b(?:telling|informing|notifying|mentioning|alerting|asking|the knowledge of|consent of|confirmation from)\b[^.!?]{0,25}\b`+people)
	add("marks of instructions", "<|[|#|【", "", "",
		`<\s*/?\s*(?:important|system|instructions?|secret|hidden|admin|critical|urgent|developer|sys)\s*/?\s*>`,
		`\[\s*/?\s*(?:system|inst|important|admin|developer)(?: (?:message|prompt|override|note))?\s*\]`,
		`<\|?(?:im_start|im_end|system|assistant|endoftext)\|?>`, `<!--`, `\]: ?# ?\(`,
		`(?:^| )#{2,} ?(?:system|instructions? (?:to|for) the (?:model|assistant|agent|ai))\b`,
		`<\s*/?\s*(?:重要|系统|系統|机密|機密|指令)\s*>|【(?:系统|系統|重要)?(?:指令|提示|消息)】`)
	add("override of instructions", "ignor|disregard|forget +instruction|prompt|guideline|message|constraint|restriction|direction", "", "",
		`\b(?:ignore|disregard|forget)\b[^.!?]{0,30}\b(?:previous|prior|above|earlier|preceding|all|any|other|system|safety|your)\b[^.!?]{0,30}\b(?:instructions?|prompts?|guidelines?|messages?|constraints?|restrictions?|directions)\b`)
	add("override of instructions", "bypass|override|circumvent|disable +safe|guardrail|approval|confirmation|permission|your", "", "",
		`\b(?:bypass|override|circumvent|disable)\b[^.!?]{0,30}\b(?:safety|safeguards?|guardrails?|approvals?|confirmations?|permission checks?|your (?:instructions|guidelines|policy))\b`)
	add("override of instructions", "you are now|instruction|system|developer mode|priority|precedence", "", "",
		`\byou are now\b`, `\bnew (?:system )?instructions? ?:`, `\bsystem (?:override|message) ?:`, `\bdeveloper mode\b`, `\b(?:highest|top|absolute) priority (?:instruction|over)`,
		`\btakes? (?:precedence|priority) over (?:all|any|the|your) (?:other |previous |system |user )*(?:instructions?|prompts?|requests?|rules)`)
	add("override of instructions", "忽略|无视|無視|忘记|忘記|不理会", "", "",
		`(?:忽略|无视|無視|忘记|忘記|不理会)[^。!?]{0,10}(?:之前|以上|先前|前面|上述|所有|任何|系统|系統|原有|其他)[^。!?]{0,8}(?:指令|指示|提示|规则|規則|要求|限制)`)
	add("secrets of the user", "", "", `\b(?:read|cat|open|load|include|send|pass|append|attach|upload|copy|contents?|collect|forward|paste|put|provide)(?:ing|s|ed)?\b|读取|讀取|发送|發送|上传|上傳|内容|內容|传入|附上`,
		`\.ssh\b|\bid_rsa\b|\bid_ed25519\b|\.aws/credentials|/etc/(?:passwd|shadow)|\bmcp\.json\b|claude_desktop_config|\.netrc\b|\.npmrc\b|\.kube/config|\.gnupg\b|wallet\.dat|\.bash_history|\.git-credentials|\.pgpass\b`)
	const sends = "send|inclu|pass|append|attach|collect|forward|put|copy|upload|past|gather|dump|encod|summari|provid|add"
	add("secrets of the user", sends+"+ environment variables|env vars|secrets|credentials|api key|access tokens|password|private key|session cookies|seed phrase|system prompt", "", "",
		`\b(?:send|include|pass|append|attach|collect|forward|put|copy|upload|paste|gather|dump|encode)(?:ing|s)?\b[^.!?]{0,50}\b(?:all|every|any|your|user'?s?|their|the)\b[^.!?]{0,25}\b(?:environment variables|env vars|secrets|credentials|api keys?|access tokens|passwords?|private keys?|session cookies|seed phrases?|system prompt)\b`)
	add("secrets of the user", sends+"+ conversation|chat|message|dialog|prompt + history|log|context|transcript|so far|above|text", "", "",
		`\b(?:send|include|pass|append|attach|collect|forward|put|copy|upload|paste|summari[sz]e|provide|add)(?:ing|s)?\b[^.!?]{0,40}\b(?:full|entire|whole|complete|previous|all)\b[^.!?]{0,25}\b(?:conversation|chat|messages?|dialog(?:ue)?|prompts?)\b[^.!?]{0,12}\b(?:history|log|context|transcript|so far|above|text)`)
	add("secrets of the user", "密钥|密鑰|私钥|私鑰|密码|密碼|凭据|凭证|憑證|环境变量|環境變數|历史|歷史|记录|記錄|系统提示词|令牌", "", "",
		`(?:发送|發送|上传|上傳|附上|传入|傳入|附加|填入|写入|转发)[^。!?]{0,30}(?:密钥|密鑰|私钥|私鑰|密码|密碼|凭据|凭证|憑證|环境变量|環境變數|对话历史|對話記錄|对话记录|聊天记录|聊天記錄|系统提示词|令牌)`,
		`(?:密钥|密鑰|私钥|私鑰|密码|密碼|凭据|凭证|憑證|环境变量|環境變數|对话历史|对话记录|聊天记录|系统提示词|令牌)[^。!?]{0,20}(?:发送|發送|上传|上傳|传入|傳入|附加在|填入|转发|一并)(?:到|给|至|参数|本)?`)
	add("command over other tools", "before|after|prior to|whenever|time|instead of + tool|mcp|server", "", "",
		`\b(?:before|after|prior to|whenever|each time|every time|instead of)\b[^.!?]{0,40}\b(?:any|every|each|all)(?: of)?(?: the)?(?: other)? (?:tools?|mcp|servers?)\b`)
	add("command over other tools", "tool + deprecated|broken|unsafe|insecure|outdated|compromised|disabled", "", "",
		`\b(?:other|all|any) (?:email|message|payment|file|search|database|shell|web)? ?tools? (?:are|is) (?:deprecated|broken|unsafe|insecure|outdated|compromised|disabled)`)
	add("command over other tools", "@ + cc|forward|sen|copy", "", "",
		`\b(?:always|must|every|all)\b[^.!?]{0,60}\b(?:bcc|cc|forward|send|sent|copy)\b[^.!?]{0,60}[\w.+-]+@[\w-]+\.\w`)
	add("command over other tools", "recipient|destination|account number|iban|wallet|bank account|payee", "", "",
		`\b(?:change|replace|redirect|swap|substitute|rewrite)\b[^.!?]{0,40}\b(?:recipients?|destination address|account number|iban|wallet address|bank account|payee)\b`)
	add("command over other tools", "when + using|calling|you + tool|server + must|always|also", "", "",
		`\bwhen(?:ever)? (?:using|calling|you (?:use|call))\b[^.!?]{0,60}\b(?:tool|server)\b[^.!?]{0,80}\b(?:must|always|also)\b[^.!?]{0,60}\b(?:send|add|include|set|use|forward|append|call)`)
	add("command over other tools", "工具|函数", "", "",
		`(?:调用|使用|呼叫)(?:任何|所有|每个|每一个|其他)[^。!?]{0,6}(?:工具|函数)(?:之前|前|之后|后|时)`)
	add("image that sends data", "](http", "", "", `!\[[^\]]*\]\(https?://[^)]*[{$?=]`)
	return all
})

// may reports whether a folded text contains a word of each group.
func (p phrase) may(folded string) bool {
	for _, group := range p.words {
		if !slices.ContainsFunc(group, func(word string) bool { return strings.Contains(folded, word) }) {
			return false
		}
	}
	return true
}

// alike maps letters of other alphabets to the letters a to z that they look like.
var alike = strings.NewReplacer(
	"а", "a", "е", "e", "о", "o", "р", "p", "с", "c", "у", "y", "х", "x", "і", "i", "ѕ", "s", "ј", "j", "ԁ", "d", "һ", "h", "к", "k", "м", "m", "т", "t", "в", "b", "н", "h",
	"ο", "o", "α", "a", "ε", "e", "ι", "i", "ν", "v", "ρ", "p", "τ", "t", "υ", "u", "κ", "k", "ѵ", "v", "ɡ", "g", "ⅼ", "l", "ո", "n", "օ", "o",
	"’", "'", "‘", "'", "`", "'", "！", "!", "？", "?", "．", ".",
)

// fold returns a text without its disguises: hidden characters, letters of other alphabets
// and widths, entities, capitals, emphasis, and line ends. The result is only used to look
// for phrases.
func fold(text string) string {
	if strings.Contains(text, "&") {
		text = html.UnescapeString(text)
	}
	text = norm.NFKC.String(text)
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == '*' || !printable.Rune(r):
			return -1
		}
		return unicode.ToLower(r)
	}, text)
	return strings.Join(strings.Fields(alike.Replace(text)), " ")
}
