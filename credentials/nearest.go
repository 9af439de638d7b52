package credentials

const maxCompared = 64 // longer names get no suggestion, in bytes

// Nearest returns the name that is most similar to name, to be suggested in an error: the
// one that differs in the fewest bytes, at most in a third of them, or "".
func Nearest(name string, among []string) string {
	if name == "" || len(name) > maxCompared {
		return ""
	}
	nearest, least := "", len(name)/4+1
	for _, other := range among {
		if d := len(other) - len(name); d >= least || -d >= least || len(other) > maxCompared {
			continue
		}
		if d := Distance(name, other); d < least {
			nearest, least = other, d
		}
	}
	return nearest
}

// Distance returns the minimum number of insertions, deletions, replacements and swaps of
// neighbouring bytes to turn a into b.
func Distance(a, b string) int {
	var room [3][maxCompared + 1]int // large enough for most names
	rows := [3][]int{room[0][:], room[1][:], room[2][:]}
	if len(b) > maxCompared {
		for i := range rows {
			rows[i] = make([]int, len(b)+1)
		}
	}
	before, last, next := rows[0], rows[1], rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			next[j+1] = min(replaced, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
