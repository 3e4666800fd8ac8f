package page

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// furniture contains the words with which pages name, in classes and ids, the things around
// and between the paragraphs of an article. They name roles that any site has, not sites.
var furniture = set(`share sharing sharebar sharetools shares social socials follow followus like likes
	related recommended recommendation recommendations recirc recirculation readmore teaser teasers
	trending popular mostread mostpopular morestories
	newsletter newsletters subscribe subscription subscribebox signup optin promo promos promotion promobox
	advert adverts advertisement advertising ad ads adslot adbox sponsor sponsored sponsors dfp gpt commercial
	breadcrumb breadcrumbs breadcrumbtrail pagination pager paginator
	comments commentlist respond disqus livefyre replies
	byline bylines dateline timestamp pubdate datetime publishdate postmeta entrymeta articlemeta metadata dateposted
	caption captions credit credits photocredit imagecredit copyright legend
	tags taglist tagcloud categories topics keywords
	bio authorbio authorbox aboutauthor
	toolbar tools print printer fontsize textsize
	cookie cookies consent gdpr donate donation fundraising survey
	sidebar rail navigation navbar nav menu submenu footer masthead skip skiplink jumplinks
	modal popup popover overlay tooltip lightbox
	outbrain taboola zergnet revcontent`)

// furnitureParts are words that count even as a part of a longer word.
var furnitureParts = []string{
	"newsletter", "breadcrumb", "caption", "disqus", "taboola", "outbrain", "advertisement", "byline", "dateline", "related",
	"recommend", "sharebar", "sharetool", "socialshar", "signup", "readmore", "mostread", "timestamp", "authorbio",
}

// wordsOf cuts the names of an element (class, id, data-component, data-module and itemprop)
// into words, at hyphens and other signs and where lower-case letters are followed by a
// capital, and calls use with each word until use returns true.
func wordsOf(n *html.Node, use func(word string) bool) bool {
	for _, s := range []string{attr(n, "class"), attr(n, "id"), attr(n, "data-component"), attr(n, "data-module"), attr(n, "itemprop")} {
		if s != "" && cutWords(s, use) {
			return true
		}
	}
	return false
}

func cutWords(s string, use func(string) bool) bool {
	start := 0
	for i := 0; i <= len(s); i++ {
		cut := i == len(s) || !isWord(s[i])
		hump := !cut && i > start && s[i] >= 'A' && s[i] <= 'Z' && s[i-1] >= 'a' && s[i-1] <= 'z'
		if !cut && !hump {
			continue
		}
		if i > start && use(strings.ToLower(s[start:i])) {
			return true
		}
		start = i
		if cut {
			start = i + 1
		}
	}
	return false
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// isFurniture reports whether an element is named as something next to the article.
func isFurniture(n *html.Node) bool {
	return wordsOf(n, func(w string) bool {
		if furniture.has(w) {
			return true
		}
		if len(w) < 7 {
			return false
		}
		for _, part := range furnitureParts {
			if strings.Contains(w, part) {
				return true
			}
		}
		return false
	})
}

// Patterns of lines that only lead elsewhere or say who made the page. The words at their
// beginning are in the languages of most pages.
var (
	pointsOn = pattern(`(?i)^\W*(related( (stories|articles|content|posts?|links?|coverage|video))?|read (more|also|next|the full|on)|also read|see (also|more)|more( (from|on|stories|coverage|about|great|articles|news|in))|you (may|might) also (like|be interested)|(don[’']t|do not) miss|recommended( for you| reading)?|most (read|popular|viewed)|trending( now)?|what to read next|up next|watch( now| more| next|:)|listen( now|:)|click (here|to)|sign up|subscribe( to| now| today|$)|get (the|our|breaking|more) .{0,40}(newsletter|news|alerts|app|emails?)|follow (us|me|.{2,40} on (twitter|facebook|instagram|x))|share (this|on|your)|like us on|join (us|our|the conversation)|download (the|our) .{0,20}app|advertisement|sponsored( content)?|lire (aussi|la suite|également)|à lire|voir aussi|mehr zum thema|lesen sie (auch|mehr)|siehe auch|leia (também|mais)|veja (também|mais)|lea (también|más)|leer más|ver más|leggi anche|lees (ook|meer)|czytaj (też|także|więcej)|läs (också|mer)|читайте также|см\. также|baca juga|関連記事|相关阅读|延伸阅读|관련 ?기사)(\b|[:：]|$)`)

	creditLine = pattern(`(?i)^\W*((image|photo|photograph|picture|video|source|credit|credits|foto|fotos|bild|crédit|фото|photographs|illustration)s?( by| courtesy| credit)?\s*[:©]|(photo|image|photograph|illustration) (by|courtesy)\b|courtesy (of )?\S|© ?\S|getty( images)?$|reuters$|ap( photo)?$|afp$|epa$)`)

	madeBy = pattern(`(?i)^\W*(by\s*$|by (?-i:\p{Lu})[^.]{2,60}$|(first )?(published|posted|updated|last (updated|modified)|created|modified|pubblicato|publié|veröffentlicht|publicado|atualizado|aktualisiert)( on| at| by)?\s*[:|]?\s.{0,60}$|\(?(additional )?(reporting|writing|editing|edited|reported|written)( and (writing|editing))? by\b.*|.{0,80}\bcontributed( reporting| to (this|the) (report|story|article)).{0,60}$|copyright\b.*|©.*|all rights reserved.*|via syndigate.*|write to .{3,60}@.*|(about the author|about the writer|author|comments?|\d+ comments?|leave a (reply|comment)|(view|load|show|post) (all |more )?(a )?comments?|tags?|topics|categories|filed under|order reprints|print article|text size|share|tweet|email|print|save|home|advertisement|loading\W*|media playback is unsupported.*)\W*$)`)

	dateLine = pattern(`(?i)^\W*((mon|tues?|wed(nes)?|thur?s?|fri|sat(ur)?|sun)(day)?,?\s+)?((jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*\.?\s+\d{1,2},?\s+\d{4}|\d{1,2}\.?\s+[\p{L}]{3,12}\.?,?\s+\d{4}|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([\s,|·at-]*\d{1,2}:\d{2}.{0,20})?\W*$`)
)

// ends reports whether a line ends like a sentence.
func ends(s string) bool {
	s = strings.TrimRightFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"'”’)»]`, r) })
	return strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "。") || strings.HasSuffix(s, "…") || strings.HasSuffix(s, "！") || strings.HasSuffix(s, "？")
}
