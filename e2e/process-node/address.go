package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// addressPool gives every pod a loopback address of its own, so that replicas
// can listen on one and the same port without network namespaces.
type addressPool struct {
	network int          // the pool is 127.network.0.0/16
	claim   net.Listener // holds network against other nodes of this machine

	mu   sync.Mutex
	next int
	used map[int]bool
}

const addressPoolSize = 1<<16 - 2

// newAddressPool claims a /16 that no other process-node of this machine uses.
// The claim is an abstract socket: the kernel gives it back when we die.
func newAddressPool() (*addressPool, error) {
	const first, last = 16, 254
	offset := rand.IntN(last - first + 1)
	for i := range last - first + 1 {
		network := first + (offset+i)%(last-first+1)
		claim, err := net.Listen("unix", fmt.Sprintf("@leasehold-process-node-127.%d", network))
		if err == nil {
			return &addressPool{network: network, claim: claim, used: map[int]bool{}}, nil
		}
	}
	return nil, fmt.Errorf("all networks 127.%d.0.0/16 to 127.%d.0.0/16 are taken by other process-nodes", first, last)
}

// acquire returns a free address; the longest unused ones come first.
func (p *addressPool) acquire() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range addressPoolSize {
		n := p.next + 1
		p.next = n % addressPoolSize
		if !p.used[n] {
			p.used[n] = true
			return fmt.Sprintf("127.%d.%d.%d", p.network, n>>8, n&0xff), nil
		}
	}
	return "", fmt.Errorf("no free address in %s", p)
}

func (p *addressPool) release(address string) {
	ip := net.ParseIP(address).To4()
	if ip == nil || int(ip[1]) != p.network {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, int(ip[2])<<8|int(ip[3]))
}

func (p *addressPool) String() string { return fmt.Sprintf("127.%d.0.0/16", p.network) }
