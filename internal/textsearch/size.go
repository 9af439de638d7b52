package textsearch

import "regexp/syntax"

// Size is how many instructions an expression is compiled to, about, without compiling it: each
// repetition of a{1,999} takes two. It is at most, or a bit more than, most.
func Size(re *syntax.Regexp, most int) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass:
		const perInstruction = 8 // ranges, which take the memory of one
		return 1 + len(re.Rune)/2/perInstruction
	case syntax.OpRepeat:
		times := max(re.Min, re.Max, 1)
		inside := Size(re.Sub[0], most)
		if inside > most/times {
			return most + 1
		}
		return times*inside + max(re.Max-re.Min, 1) // and one to choose for each that may be left out
	}
	for _, sub := range re.Sub {
		if n += Size(sub, most); n > most {
			return n
		}
	}
	return n
}
