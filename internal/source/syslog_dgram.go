package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userEvery is how often users that don't exist are looked up again.
const userEvery = time.Minute

// receiveUnix reads datagrams with the credentials of who sent them.
func (y *Syslog) receiveUnix(ctx context.Context) error {
	c, err := y.openUnix()
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // only read
	// Without this set when a datagram is sent the kernel doesn't tell who
	// sent it: in a unit it is PassCredentials=yes.
	if err := setOption(c, unix.SO_PASSCRED, 1); err != nil {
		return fmt.Errorf("ask the kernel who sends: %w", err)
	}
	users := y.users()
	y.started()
	defer interrupt(ctx, c)()
	buf := make([]byte, y.s.maxLine+headerRoom)
	// There is room for the sender's credentials and no more: descriptors
	// that somebody sends along are closed by the kernel.
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, oobn, flags, _, err := c.ReadMsgUnix(buf, oob)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		uid, ok := sender(oob[:oobn])
		if !ok {
			y.refuse(slog.String("user", "not told by the kernel"))
			continue
		}
		if !users.may(uid) {
			y.refuse(slog.Any("user", userName(uid)), slog.Int64("uid", int64(uid)))
			continue
		}
		y.message(buf[:n], flags&unix.MSG_TRUNC != 0)
	}
}

// sender returns the user of SCM_CREDENTIALS, and closes what else is there.
func sender(oob []byte) (uid uint32, ok bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, false
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
		}
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			uid, ok = cred.Uid, true
		}
	}
	return uid, ok
}

// refuse counts a datagram or connection of somebody who may not send, and says
// so the first time.
func (y *Syslog) refuse(who ...any) {
	if y.s.refused.Add(1) == 1 {
		y.s.log.Warn("refused: may not send syslog messages (further ones are only counted)", who...)
	}
}

// userName is a user's number that is looked up when it is logged.
type userName uint32

// LogValue implements slog.LogValuer.
func (n userName) LogValue() slog.Value {
	u, err := user.LookupId(strconv.FormatUint(uint64(n), 10))
	if err != nil {
		return slog.StringValue("unknown here")
	}
	return slog.StringValue(u.Username)
}

// started says that messages are received.
func (y *Syslog) started() {
	y.pause.reset()
	y.s.fine(Following)
	y.s.log.Info("receiving syslog messages", slog.Bool("passed", y.o.File != nil))
}

// users are those that may send.
type users struct {
	y     *Syslog
	uids  map[uint32]bool
	again time.Time // when the unknown ones are looked up again; zero: none is
}

func (y *Syslog) users() *users {
	u := &users{y: y}
	u.lookUp(time.Now())
	return u
}

func (u *users) may(uid uint32) bool {
	if !u.uids[uid] && !u.again.IsZero() {
		if now := time.Now(); now.After(u.again) {
			u.lookUp(now)
		}
	}
	return u.uids[uid]
}

func (u *users) lookUp(now time.Time) {
	first := u.uids == nil
	u.uids, u.again = map[uint32]bool{}, time.Time{}
	for _, name := range u.y.o.FromUsers {
		id := name
		if _, err := strconv.ParseUint(name, 10, 32); err != nil {
			known, err := user.Lookup(name)
			if err != nil {
				u.again = now.Add(userEvery)
				if first {
					u.y.s.log.Warn("a user of from_users is not known here, its messages are refused", slog.String("user", name), slog.Any("err", err))
				}
				continue
			}
			id = known.Uid
		}
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			u.uids[uint32(n)] = true
		}
	}
}

// openUnix returns a connection of our own for the socket.
func (y *Syslog) openUnix() (*net.UnixConn, error) {
	if y.o.File == nil {
		return listenUnix(y.o.Address)
	}
	return passedPackets[*net.UnixConn](y)
}

// passedPackets takes the socket for datagrams that systemd has passed.
func passedPackets[C interface {
	net.PacketConn
	syscall.Conn
}](y *Syslog) (none C, err error) {
	p, err := net.FilePacketConn(y.o.File)
	if err != nil {
		return none, fmt.Errorf("take the socket that systemd has passed (is it a ListenDatagram=?): %w", err)
	}
	c, ok := p.(C)
	if !ok {
		return none, errors.Join(fmt.Errorf("the socket that systemd has passed is of another network: %s", p.LocalAddr().Network()), p.Close())
	}
	if err := y.checkSocket(c, unix.SOCK_DGRAM, c.LocalAddr()); err != nil {
		return none, errors.Join(err, c.Close())
	}
	return c, nil
}

// listenUnix makes a socket to which every user can send, in the place of one
// that nobody reads any more.
func listenUnix(path string) (*net.UnixConn, error) {
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, bindHint(err)
	}
	addr := &net.UnixAddr{Name: path, Net: "unixgram"}
	switch fi, err := os.Lstat(path); {
	case err != nil: // not there, or the next step says why
	case fi.Mode()&os.ModeSocket == 0:
		return nil, fmt.Errorf("%s is there and is no socket", path)
	default:
		if c, err := net.DialUnix("unixgram", nil, addr); err == nil {
			return nil, errors.Join(bindHint(fmt.Errorf("bind %s: %w", path, unix.EADDRINUSE)), c.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, bindHint(fmt.Errorf("remove the socket of before: %w", err))
		}
	}
	c, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		return nil, bindHint(fmt.Errorf("make the socket: %w", err))
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("open the socket to all users: %w", err), c.Close())
	}
	return c, nil
}

// makeFolder makes a folder that every user can enter. One that is there stays
// as it is, but must not let every user put something else in our socket's place.
func makeFolder(dir string) error {
	if fi, err := os.Stat(dir); err == nil {
		if fi.Mode().Perm()&0o002 != 0 && fi.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("every user can change what is in %s: give the socket a folder of its own", dir)
		}
		return nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the socket: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		return fmt.Errorf("open the folder of the socket to all users: %w", err)
	}
	return nil
}

// receiveUDP reads datagrams of the networks that may send.
func (y *Syslog) receiveUDP(ctx context.Context) error {
	c, err := y.openUDP(ctx)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // only read
	// The larger one needs CAP_NET_ADMIN, which the daemon has.
	if setOption(c, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = c.SetReadBuffer(receiveBuffer)
	}
	_ = setOption(c, unix.SO_RXQ_OVFL, 1) // without it they are not counted
	y.started()
	defer interrupt(ctx, c)()
	buf := make([]byte, min(y.s.maxLine+headerRoom, 64<<10))
	oob := make([]byte, unix.CmsgSpace(4))
	var before uint32 // datagrams that the socket had dropped
	known := y.o.File == nil
	for {
		n, oobn, flags, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		// It is told only once there are any. A socket that others made may
		// have some that were told before.
		if dropped := overflow(oob[:oobn]); known {
			y.s.lost.Add(int64(dropped - before))
			before = dropped
		} else {
			before, known = dropped, true
		}
		if !y.from(from.Addr()) {
			y.refuse(slog.String("addr", from.Addr().Unmap().String()))
			continue
		}
		y.message(buf[:n], flags&unix.MSG_TRUNC != 0)
	}
}

// overflow returns how many datagrams a socket has dropped since it was made,
// as of SO_RXQ_OVFL in socket(7).
func overflow(oob []byte) uint32 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4 {
			return binary.NativeEndian.Uint32(m.Data)
		}
	}
	return 0
}

func (y *Syslog) openUDP(ctx context.Context) (*net.UDPConn, error) {
	if y.o.File == nil {
		var lc net.ListenConfig
		p, err := lc.ListenPacket(ctx, "udp", y.o.Address)
		if err != nil {
			return nil, bindHint(err)
		}
		return p.(*net.UDPConn), nil //nolint:forcetypeassert // as documented
	}
	return passedPackets[*net.UDPConn](y)
}

// setOption sets a whole number of SOL_SOCKET.
func setOption(c syscall.Conn, option, value int) error {
	return control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, value) })
}

// option returns one.
func option(c syscall.Conn, option int) (value int, err error) {
	err = control(c, func(fd int) (err error) {
		value, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		return err
	})
	return value, err
}

func control(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}
