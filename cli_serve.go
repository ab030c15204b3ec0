package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func serveCommands() []command {
	return []command{{"serve", "[--host HOST] [--port PORT] [--no-pairing] [--debug]",
		"run the runtime: listen on loopback and ask in this terminal what pages may do", runServe}}
}

// runServe runs the runtime until it is interrupted.
func runServe(_ context.Context, c *cli, args []string) error {
	cfg, err := serveConfig(c, args)
	if err != nil {
		return err
	}
	if err := makeDataFolder(cfg.dir); err != nil {
		return err
	}
	closeOnExec()
	asked, force, stopSignals := endSignals()
	defer stopSignals()
	rt := newRuntime(c, cfg, asked, force)
	if err := rt.open(); err != nil {
		return err
	}
	announce(c, cfg, rt.ports)
	return rt.serve()
}

// serveConfig is the configuration with what the flags say. A wrong command
// line is told before a wrong file.
func serveConfig(c *cli, args []string) (config, error) {
	cfg, invalid := c.config()
	flags := newFlags("serve")
	flags.Func("host", "address to listen on", cfg.setHost)
	flags.Func("port", "port to listen on; 0 takes a free one", func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil {
			return errors.New("it must be a number")
		}
		return cfg.setPort(n)
	})
	flags.BoolFunc("no-pairing", "let every page do everything", func(s string) error {
		off, err := strconv.ParseBool(s)
		cfg.requirePairing = !off
		return err
	})
	flags.BoolVar(&cfg.debug, "debug", cfg.debug, "log every request")
	if _, err := parseArgs(flags, args); err != nil {
		return cfg, err
	}
	return cfg, invalid
}

// endSignals returns a context that ends at the first signal to end, and one
// that ends at the second. A third ends the program as if nobody listened. The
// end of the terminal counts unless the program was started to outlive it; it
// is never the second signal, since a shell and the system both tell of it.
func endSignals() (asked, force context.Context, stop func()) {
	signals, hangUp := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangUp, syscall.SIGHUP)
	}
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE) // a closed terminal must not end us without order

	shuttingDown := problemf(kindNoCapacity, "The runtime is shutting down; start it again and retry.")
	asked, askedNow := context.WithCancelCause(context.Background())
	force, forceNow := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with stop
		select {
		case <-signals:
		case <-hangUp:
		case <-done:
			return
		}
		askedNow(shuttingDown)
		select {
		case <-signals:
		case <-done:
			return
		}
		forceNow()
		signal.Stop(signals)
	}()
	return asked, force, func() {
		signal.Stop(signals)
		signal.Stop(hangUp)
		signal.Stop(ignored)
		close(done)
	}
}

// announce says where the runtime listens, and what it lets in.
func announce(c *cli, cfg config, p *ports) {
	fmt.Fprintf(c.stdout, "agent-runtime %s listens on http://%s\n", programVersion(), p.plain.Addr())
	if addr := p.secureAddr(); addr != nil {
		fmt.Fprintf(c.stdout, "and with its certificate on https://%s\n", addr)
	}
	if p.fault != nil {
		fmt.Fprintf(c.stdout, "WARNING: %s\n", visible(p.fault.Error()))
	}
	if cfg.requirePairing {
		fmt.Fprintln(c.stdout, "Pairing is required: a page that wants access is asked about here.")
	} else {
		fmt.Fprintln(c.stdout, "WARNING: pairing is off. EVERY web page open in a browser here can run code on this computer.")
	}
	if !loopbackHost(cfg.host) && !loopbackHost("["+cfg.host+"]") {
		fmt.Fprintf(c.stdout, "WARNING: %s is not a loopback address. Other computers can reach this runtime.\n", visible(cfg.host))
	}
	fmt.Fprintf(c.stdout, "Data folder: %s\n", visible(cfg.dir))
	fmt.Fprintln(c.stdout, "Ctrl-C stops it.")
}
