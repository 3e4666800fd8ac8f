package lex

// angles returns the item after the template arguments that < opens at i. It returns i if <
// is a comparison.
func (c *clang) angles(i int) int {
	depth := 0
	for j, n := i, 0; n < 96; n++ {
		c.steps++
		switch o := c.op(j); {
		case o == '<':
			depth++
		case o == '>':
			depth--
		case o == opShr:
			depth -= 2
		case o == ';' || o == '{' && depth < 2 && c.op(j-1) != opName || o == opNone || closes(o):
			return i
		case opens(o):
			j = c.match(j)
		}
		j++
		if depth <= 0 {
			return j
		}
	}
	return i
}

// template returns the item before the declaration of the template whose keyword is
// item i.
func (c *clang) template(i int) int {
	if c.op(i+1) != '<' {
		return i
	}
	depth, j := 0, i+1
	for ; j < len(c.items); j++ {
		c.steps++
		switch o := c.op(j); {
		case o == '<':
			depth++
		case o == '>':
			depth--
		case o == opShr:
			depth -= 2
		case opens(o):
			j = c.match(j)
		case o == ';' || closes(o):
			return j - 1
		}
		if depth <= 0 {
			break
		}
	}
	if c.word(j+1) == "requires" {
		return c.requires(j + 1)
	}
	return j
}

// requires returns the last item of the requires clause that begins at item i.
func (c *clang) requires(i int) int {
	for {
		c.steps++
		i++
		switch {
		case c.op(i) == '(':
			i = c.match(i)
		case c.word(i) == "requires":
			for c.op(i) != '{' && c.op(i) != opNone && c.op(i) != ';' {
				c.steps++
				if c.op(i) == '(' {
					i = c.match(i)
				}
				i++
			}
			i = c.match(min(i, len(c.items)-1))
		default:
			if c.op(i) == '!' {
				i++
			}
			for c.op(i) == opName && c.op(i+1) == opColons {
				c.steps++
				i += 2
			}
			if c.op(i+1) == '<' {
				i = c.angles(i+1) - 1
			}
		}
		if o := c.op(i + 1); o != opAnd && o != opOr {
			return i
		}
		i++
	}
}

// operatorName reads the name of an operator, whose keyword is item i.
func (c *clang) operatorName(i int, d *cDeclaration) int {
	j := i + 1
	if c.op(j) == '(' && c.op(j+1) == ')' {
		j++
	} else {
		for n := 0; n < 32 && c.op(j) != '(' && c.op(j) != ';' && c.op(j) != '{' && c.op(j) != opNone; n++ {
			c.steps++
			if c.op(j) == '[' {
				j = c.match(j)
			}
			j++
		}
		j--
	}
	if c.op(j+1) == '(' {
		d.name, d.named, d.params = j, c.qualified(i), j+1
		return c.match(j + 1)
	}
	return j
}

// qualified returns the first item of the name that ends with item i.
func (c *clang) qualified(i int) int {
	for range 16 {
		c.steps++
		if c.op(i-1) == '~' {
			i--
		}
		if c.op(i-1) != opColons {
			break
		}
		j := i - 2
		if c.op(j) == '>' || c.op(j) == opShr {
			for depth := 0; j > 0 && j > i-64; j-- {
				c.steps++
				switch c.op(j) {
				case '>':
					depth++
				case opShr:
					depth += 2
				case '<':
					depth--
				}
				if depth <= 0 {
					break
				}
			}
			j--
		}
		if c.op(j) != opName {
			break
		}
		i = j
	}
	return i
}

// bracket decides whether the bracket at item j opens the parameters of the declaration.
func (c *clang) bracket(j int, d *cDeclaration) {
	if d.value || d.params > 0 && !c.macro(d, j) {
		return
	}
	name := j - 1
	switch c.op(name) {
	case opName:
	case '>': // end of a template specialisation
		for depth := 0; name > d.start; name-- {
			c.steps++
			if o := c.op(name); o == '>' {
				depth++
			} else if o == opShr {
				depth += 2
			} else if o == '<' {
				depth--
			}
			if depth <= 0 {
				break
			}
		}
		name--
		if c.op(name) != opName {
			return
		}
	default:
		// The name may be in parentheses: (f)(a), or (*f(a))(b), which returns a function.
		k := j + 1
		for c.op(k) == '*' || c.op(k) == '&' || c.op(k) == kwModifier {
			c.steps++
			k++
		}
		if c.op(k) != opName || k > j+1 && c.op(k+1) != '(' {
			return
		}
		if open := c.match(j) + 1; c.op(k+1) == ')' && c.op(open) == '(' {
			d.name, d.named, d.params = k, k, open
		} else if c.op(k+1) == '(' && c.op(open) == '(' {
			d.name, d.named, d.params = k, k, k+1
		}
		return
	}
	switch c.word(name) {
	case "__attribute__", "__attribute", "__declspec", "alignas", "decltype", "noexcept", "requires", "__asm__", "asm", "_Alignas", "__typeof__", "typeof", "_Static_assert", "explicit", "__extension__", "__nonnull":
		return
	}
	d.name, d.named, d.params = name, c.qualified(name), j
	d.types = d.named - d.start
}

// macro reports whether the brackets that were taken for parameters belong to a macro in
// front of the function whose parameters the bracket j opens. A macro on a line of its own
// is then left out of the function.
func (c *clang) macro(d *cDeclaration, j int) bool {
	end := c.match(d.params)
	if d.types > 0 || c.op(j-1) != opName || end >= j-1 || c.op(d.name) != opName {
		return false
	}
	switch c.word(j - 1) {
	case "noexcept", "__attribute__", "throw", "requires", "__asm__", "asm", "decltype":
		return false
	}
	switch c.op(end + 1) {
	case opName, kwModifier, kwOther, kwStruct, kwUnion, kwEnum:
	default:
		return false
	}
	if end+1 == j-1 && c.lineOf(end+1) == c.lineOf(end) {
		return false // such as f(a) noexcept_if(b)
	}
	if c.lineOf(end+1) > c.lineOf(end) {
		d.start = end + 1
	}
	return true
}

// initialisers returns the item after the initialisers of a constructor that begin at item
// i: the brace of the body, or an item that cannot belong to initialisers.
func (c *clang) initialisers(i int) int {
	for i < len(c.items) {
		c.steps++
		switch o := c.op(i); o {
		case opName, opColons, opDots, kwTemplate, kwOther:
			i++
			continue
		case '<':
			end := c.angles(i)
			if end == i {
				return i
			}
			i = end
			continue
		case '(', '{':
			i = c.match(i) + 1
		default:
			return i
		}
		if c.op(i) == opDots {
			i++
		}
		if c.op(i) != ',' {
			return i
		}
		i++
	}
	return i
}

// oldStyle returns the opening brace of the body of a function in K&R C, or 0 for another
// declaration. The bracket i opens its parameters, and the declaration of the first
// parameter ends at the semicolon j.
func (c *clang) oldStyle(i, j int) int {
	end := c.match(i)
	if end+2 >= j {
		return 0
	}
	for k := i + 1; k < end; k++ {
		c.steps++
		if o := c.op(k); o != opName && o != ',' || o == opName && c.op(k-1) == opName {
			return 0
		}
	}
	for range 256 {
		c.steps++
		switch o := c.op(j); {
		case o == '{':
			if c.op(j-1) == ';' {
				return j
			}
			return 0
		case o == '(' || o == '[':
			j = c.match(j)
		case o == opName || keyword(o) && o != kwTypedef && o != kwExtern || o == '*' || o == ',' || o == ';':
		default:
			return 0
		}
		j++
	}
	return 0
}

// declarationEnd returns the item after the semicolon of a declaration.
func (c *clang) declarationEnd(i int) int {
	for ; i < len(c.items); i++ {
		c.steps++
		switch o := c.op(i); {
		case o == ';':
			return i + 1
		case closes(o):
			return i
		case opens(o):
			i = c.match(i)
		}
	}
	return i
}
