package ledger

import (
	"context"
	"time"
)

// A Held is a claim of a reservation in a form that can be stored. Its units are in the record of its counter,
// and go on to count after a crash; what is stored is only what is needed to settle them.
type Held struct {
	Key    string        `json:"key"`
	Window time.Duration `json:"window"`
	Bucket int64         `json:"bucket"` // that the units count in
	Units  int64         `json:"units"`
}

// Detach moves some claims of a reservation, by their indices, into a reservation of their own, which has them in
// that order. Settling or releasing the first one does not end them. The caller may store what is
// returned, so that a later process can settle them, see [Ledger.Restore]. Claims whose counter was forgotten
// or set to another window since have no units.
func (l *Ledger) Detach(from Reservation, claims []int) (Reservation, []Held) {
	r := from.(*reservation)
	out := &reservation{bookings: make([]booking, 0, len(claims))}
	held := make([]Held, 0, len(claims))
	for _, i := range claims {
		b := r.bookings[i]
		a := b.account
		a.shard.mu.Lock()
		h := Held{Key: a.key, Window: a.window, Bucket: b.bucket, Units: b.units}
		if b.gone = b.gone || r.settled.Load() || a.epoch != b.epoch; b.gone {
			h.Units = 0
		}
		a.shard.mu.Unlock()
		r.bookings[i].gone = true
		out.bookings, held = append(out.bookings, b), append(held, h)
	}
	return out, held
}

// Restore returns the reservation of claims that an earlier process has detached. They are held again, and
// settling it gives back what was not used, as far as it still counts. It must be called only once for what was
// detached, and not for counters that were forgotten since.
func (l *Ledger) Restore(ctx context.Context, held []Held) (Reservation, error) {
	r := &reservation{bookings: make([]booking, 0, len(held))}
	for _, h := range held {
		b, err := l.restore(ctx, h)
		if err != nil {
			l.letGo(r)
			return nil, err
		}
		r.bookings = append(r.bookings, b)
	}
	return r, nil
}

// letGo has the units of a reservation count as used.
func (l *Ledger) letGo(r *reservation) {
	r.settled.Store(true)
	for i := range r.bookings {
		if b := &r.bookings[i]; !b.gone {
			l.credit(b, 0)
		}
	}
}

func (l *Ledger) restore(ctx context.Context, h Held) (b booking, err error) {
	claim := Claim{Key: h.Key, Window: h.Window, Units: h.Units}
	if err := claim.validate(); err != nil {
		return b, err
	}
	err = l.whenLoaded(ctx, h.Key, h.Window, func(a *account, now int64) {
		b = booking{account: a, bucket: h.Bucket, units: h.Units, epoch: a.epoch, gone: h.Units == 0 || a.window != h.Window}
		if b.gone {
			return
		}
		a.advance(now)
		if b.epoch = a.epoch; a.in(h.Bucket) >= h.Units {
			b.held = true
			a.held += h.Units
		}
		a.used = now
	})
	return b, err
}

// in returns the units of a bucket.
func (c *counter) in(bucket int64) int64 {
	for _, s := range c.spans {
		if s.bucket == bucket {
			return s.units
		}
	}
	return 0
}
