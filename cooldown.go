package main

import "time"

const (
	// cooldownFirst is the first pause after a no; each further one in a row
	// doubles it up to cooldownMost.
	cooldownFirst = 5 * time.Second
	cooldownMost  = 5 * time.Minute

	// cooldownMemory is how long after a pause the next no still counts as
	// one in a row.
	cooldownMemory = 10 * time.Minute

	// cooldownFreeWithdrawals is how often in a row a question may be
	// withdrawn and asked again at once. A page that is loaded anew does it;
	// one that does it for ever would write the terminal full.
	cooldownFreeWithdrawals = 5

	// cooldownKeys bounds how many keys are remembered. Each cost a person a
	// no, or the asker a question of its own.
	cooldownKeys = 512
)

// cooldowns keeps what was refused from being asked again at once. The zero
// value has refused nothing.
type cooldowns struct {
	keys map[string]cooldown
}

type cooldown struct {
	nos, withdrawals int       // in a row
	until            time.Time // when it may be asked again
}

// left is how long key may not be asked about.
func (c *cooldowns) left(key string, now time.Time) time.Duration {
	return max(c.keys[key].until.Sub(now), 0)
}

// refused notes a no. The first free ones in a row cause no pause.
func (c *cooldowns) refused(key string, free int, now time.Time) {
	k := c.recall(key, now)
	k.nos++
	k.until = now.Add(pause(k.nos - free))
	c.keep(key, k, now)
}

// withdrawn notes that key was asked about and nobody waited for the answer.
func (c *cooldowns) withdrawn(key string, now time.Time) {
	k := c.recall(key, now)
	k.withdrawals++
	k.until = now.Add(pause(k.withdrawals - cooldownFreeWithdrawals))
	c.keep(key, k, now)
}

// forget ends the row of key.
func (c *cooldowns) forget(key string) { delete(c.keys, key) }

func (c *cooldowns) recall(key string, now time.Time) cooldown {
	k := c.keys[key]
	if k.over(now) {
		return cooldown{}
	}
	return k
}

func (k cooldown) over(now time.Time) bool { return now.Sub(k.until) > cooldownMemory }

// keep stores k; when there are too many, the one that ends first goes.
func (c *cooldowns) keep(key string, k cooldown, now time.Time) {
	if c.keys == nil {
		c.keys = make(map[string]cooldown)
	}
	c.keys[key] = k
	if len(c.keys) <= cooldownKeys {
		return
	}
	first := key
	for other, o := range c.keys {
		if o.over(now) {
			delete(c.keys, other)
		} else if o.until.Before(c.keys[first].until) {
			first = other
		}
	}
	if len(c.keys) > cooldownKeys {
		delete(c.keys, first)
	}
}

// pause is how long to wait after the nth of a row, 0 when n is not positive.
func pause(n int) time.Duration {
	d := cooldownFirst
	for range n - 1 {
		d = min(2*d, cooldownMost)
	}
	if n <= 0 {
		return 0
	}
	return d
}
