package dev.starling.transport.ucx;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

@EnabledOnOs(OS.LINUX)
class HostSocketsTest {
    private static final String LOOPBACK = "127.0.0.1";
    private static final Path MAX_SEND_BUFFER = Path.of("/proc/sys/net/core/wmem_max");
    private static final MethodHandle GET_OPTION = Linker.nativeLinker().downcallHandle(
            Linker.nativeLinker().defaultLookup().findOrThrow("getsockopt"), FunctionDescriptor.of(
            ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT,
            ValueLayout.ADDRESS, ValueLayout.ADDRESS));

    /** Both ends of a connection. */
    private static final class Pair implements AutoCloseable {
        private final Socket caller = new Socket();
        private final Socket called;

        Pair(String from, String to) throws IOException {
            try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(to))) {
                caller.bind(new InetSocketAddress(from, 0));
                caller.connect(server.getLocalSocketAddress(), 5_000);
                called = server.accept();
            }
        }

        void carry() throws IOException {
            called.getOutputStream().write(42);
            assertThat(caller.getInputStream().read()).isEqualTo(42);
        }

        @Override
        public void close() throws IOException {
            caller.close();
            called.close();
        }
    }

    /** Java keeps a socket of its own after the first one is opened. */
    @BeforeAll
    static void openTheFirst() throws IOException {
        new Pair(LOOPBACK, LOOPBACK).close();
        new DatagramSocket().close();
    }

    /** Returns the process's sockets, by descriptor and inode. */
    private static Set<String> sockets() throws IOException {
        Set<String> found = new TreeSet<>();
        try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
            for (Path path : all.toList()) {
                if (Files.isSymbolicLink(path)) {
                    String target = Files.readSymbolicLink(path).toString();
                    if (target.startsWith("socket:")) {
                        found.add(path.getFileName() + " " + target);
                    }
                }
            }
        }
        return found;
    }

    /** Reads sockets' settings: the send buffer, twice as large as requested, and the congestion control. */
    private static Set<String> settings(Set<String> sockets) throws Throwable {
        Set<String> all = new TreeSet<>();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment value = arena.allocate(16, 4);
            MemorySegment length = arena.allocate(ValueLayout.JAVA_INT);
            for (String socket : sockets) {
                int descriptor = Integer.parseInt(socket.substring(0, socket.indexOf(' ')));
                length.set(ValueLayout.JAVA_INT, 0, 4);
                assertThat((int) GET_OPTION.invokeExact(descriptor, 1, 7, value, length)).isZero();
                int room = value.get(ValueLayout.JAVA_INT, 0);
                length.set(ValueLayout.JAVA_INT, 0, 16);
                boolean controlled = (int) GET_OPTION.invokeExact(descriptor, 6, 13, value, length) == 0;
                all.add(socket + " " + room + " " + (controlled ? value.getString(0) : "uncontrolled"));
            }
        }
        return all;
    }

    /** Returns the sockets that were opened since. */
    private static Set<String> since(Set<String> before) throws IOException {
        Set<String> now = sockets();
        now.removeAll(before);
        return now;
    }

    private static boolean isGranted(long bytes) throws IOException {
        // The kernel returns such files in one read or not at all.
        return Long.parseLong(Files.readAllLines(MAX_SEND_BUFFER).getFirst()) >= bytes;
    }

    @Test
    void limitsBuffersAndDisablesPacingAtBothEndsOfALocalConnection() throws Throwable {
        assumeTrue(Files.isReadable(MAX_SEND_BUFFER), "the system does not reveal its limit of send buffers");
        Set<String> before = sockets();
        HostSockets wires = new HostSockets();
        try (Pair pair = new Pair(LOOPBACK, LOOPBACK)) {
            Set<String> opened = since(before);
            assertThat(opened).hasSize(2);
            Set<String> untouched = settings(opened);
            assertThat(wires.tune()).isEqualTo(2);
            pair.carry();
            assertThat(settings(opened)).allMatch(s -> s.endsWith(" cubic") || s.endsWith(" reno"));
            if (isGranted(HostSockets.SEND_BYTES)) {
                assertThat(settings(opened)).allMatch(s -> s.contains("] " + 2 * HostSockets.SEND_BYTES + " "));
            } else {
                assertThat(rooms(settings(opened))).isEqualTo(rooms(untouched));
            }
        }
    }

    private static Set<String> rooms(Set<String> settings) {
        return new TreeSet<>(settings.stream().map(s -> s.substring(0, s.lastIndexOf(' '))).toList());
    }

    @Test
    void leavesTheBufferSizeToTheSystemWhereItGrantsLess() throws Throwable {
        int much = 1 << 30;
        assumeTrue(Files.isReadable(MAX_SEND_BUFFER) && !isGranted(much), "the system grants a gigabyte");
        Set<String> before = sockets();
        HostSockets wires = new HostSockets(much);
        try (Pair pair = new Pair(LOOPBACK, LOOPBACK)) {
            Set<String> opened = since(before);
            Set<String> untouched = settings(opened);
            assertThat(wires.tune()).isEqualTo(2);
            pair.carry();
            assertThat(rooms(settings(opened))).isEqualTo(rooms(untouched));
        }
    }

    @Test
    void ignoresConnectionsThatWereOpenBefore() throws Throwable {
        Set<String> before = sockets();
        try (Pair pair = new Pair(LOOPBACK, LOOPBACK)) {
            Set<String> opened = since(before);
            Set<String> untouched = settings(opened);
            HostSockets wires = new HostSockets();
            try (Pair own = new Pair(LOOPBACK, LOOPBACK)) {
                assertThat(wires.tune()).isEqualTo(2);
                own.carry();
            }
            pair.carry();
            assertThat(settings(opened)).hasSize(2).isEqualTo(untouched);
        }
    }

    @Test
    void ignoresDatagramSockets() throws Throwable {
        Set<String> before = sockets();
        HostSockets wires = new HostSockets();
        try (DatagramSocket from = new DatagramSocket(0, InetAddress.getByName(LOOPBACK));
                DatagramSocket to = new DatagramSocket(0, InetAddress.getByName(LOOPBACK))) {
            from.connect(to.getLocalSocketAddress());
            to.connect(from.getLocalSocketAddress());
            Set<String> opened = since(before);
            Set<String> untouched = settings(opened);
            assertThat(wires.tune()).isZero();
            assertThat(settings(opened)).hasSize(2).isEqualTo(untouched);
        }
    }

    @Test
    void ignoresConnectionsBetweenDifferentAddresses() throws Throwable {
        Set<String> before = sockets();
        HostSockets wires = new HostSockets();
        try (Pair pair = new Pair(LOOPBACK, "127.0.0.2")) {
            Set<String> opened = since(before);
            Set<String> untouched = settings(opened);
            assertThat(wires.tune()).isZero();
            pair.carry();
            assertThat(settings(opened)).hasSize(2).isEqualTo(untouched);
        }
    }
}
