package dev.starling.transport.ucx;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.net.Socket;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;

/**
 * The TCP connections of a wire with processes of the same host. There is no network between them that could be
 * congested; a congestion control that measures it and paces what is sent, as {@code bbr} does, only takes the
 * processors' time. Nor need much be on its way to fill it, and what is copied into the kernel and out again is faster
 * copied while it is in the processors' caches.
 *
 * <p>UCX has no setting for it and does not tell which sockets are its own. So they are looked for among all that the
 * process has: those that were open before the wire was are none of its business and stay as they are. What remains: a
 * connection from an address to the same one that the application, or another wire, opened after this wire is tuned
 * with the wire's.
 */
final class HostSockets {
    /** More than that need not be on its way. Linux takes twice that, and counts what it needs for itself. */
    static final int SEND_BYTES = 512 << 10;

    private static final Path DESCRIPTORS = Path.of("/proc/self/fd");
    private static final int SOCKET = 1;
    private static final int TYPE = 3;
    private static final int STREAM = 1;
    private static final int SEND_BUFFER = 7;
    private static final int TCP = 6;
    private static final int CONGESTION = 13;
    private static final short INET = 2;
    private static final short INET6 = 10;
    private static final int SOCKET_ADDRESS_BYTES = 28;
    /** What only reacts to loss, the faster first; the system may not let everybody choose it. */
    private static final String[] UNPACED = {"cubic", "reno"};

    private final int sendBytes;
    /** What the system calls the sockets that are not the wire's. */
    private final Set<String> others = new HashSet<>();

    /** Remembers all sockets that the process has, before a wire opens its own. */
    HostSockets() {
        this(SEND_BYTES);
    }

    HostSockets(int sendBytes) {
        this.sendBytes = sendBytes;
        try (DirectoryStream<Path> descriptors = Files.newDirectoryStream(DESCRIPTORS)) {
            for (Path path : descriptors) {
                others.add(target(path));
            }
        } catch (IOException | DirectoryIteratorException e) {
            // No Linux: nothing is found later, either.
            others.clear();
        }
    }

    /** Has all that were opened since then send without pacing, and little ahead; returns how many do. */
    int tune() {
        int done = 0;
        try (Arena arena = Arena.ofConfined();
                DirectoryStream<Path> descriptors = Files.newDirectoryStream(DESCRIPTORS)) {
            MemorySegment[] names = new MemorySegment[UNPACED.length];
            for (int i = 0; i < names.length; i++) {
                names[i] = arena.allocateFrom(UNPACED[i]);
            }
            MemorySegment room = isGranted() ? arena.allocateFrom(ValueLayout.JAVA_INT, sendBytes) : null;
            MemorySegment here = arena.allocate(SOCKET_ADDRESS_BYTES, Integer.BYTES);
            MemorySegment there = arena.allocate(SOCKET_ADDRESS_BYTES, Integer.BYTES);
            MemorySegment length = arena.allocate(ValueLayout.JAVA_INT);
            for (Path path : descriptors) {
                String target = target(path);
                if (!target.startsWith("socket:") || others.contains(target)) {
                    continue;
                }
                int descriptor = Integer.parseInt(path.getFileName().toString());
                if (Calls.option(descriptor, SOCKET, TYPE, here, length) && here.get(ValueLayout.JAVA_INT, 0) == STREAM
                        && Calls.address(Calls.OWN_ADDRESS, descriptor, here, length)
                        && Calls.address(Calls.PEERS_ADDRESS, descriptor, there, length) && isSameHost(here, there)) {
                    if (room != null) {
                        Calls.setOption(descriptor, SOCKET, SEND_BUFFER, room, room.byteSize());
                    }
                    done += doNotPace(descriptor, names) ? 1 : 0;
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            // No Linux: they stay as they are.
            return done;
        }
        return done;
    }

    /** Returns what a descriptor stands for, such as {@code socket:[4711]}; nothing if it is closed by now. */
    private static String target(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString();
        } catch (IOException e) {
            return "";
        }
    }

    /**
     * Returns whether who asks for that much gets it. Where the system allows less ({@code net.core.wmem_max}), one who
     * does not ask may have more: it gives as needed, up to {@code net.ipv4.tcp_wmem}.
     */
    private boolean isGranted() throws IOException {
        try (Socket probe = new Socket()) {
            probe.setSendBufferSize(sendBytes);
            return probe.getSendBufferSize() >= sendBytes;
        }
    }

    private static boolean doNotPace(int descriptor, MemorySegment[] names) {
        for (MemorySegment name : names) {
            if (Calls.setOption(descriptor, TCP, CONGESTION, name, name.byteSize() - 1)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isSameHost(MemorySegment here, MemorySegment there) {
        short family = here.get(ValueLayout.JAVA_SHORT, 0);
        return family == there.get(ValueLayout.JAVA_SHORT, 0) && switch (family) {
            case INET -> here.asSlice(4, 4).mismatch(there.asSlice(4, 4)) == -1;
            case INET6 -> here.asSlice(8, 16).mismatch(there.asSlice(8, 16)) == -1;
            default -> false;
        };
    }

    /** Functions of the C library that Java has no method for. */
    private static final class Calls {
        static final MethodHandle OWN_ADDRESS = address("getsockname");
        static final MethodHandle PEERS_ADDRESS = address("getpeername");
        private static final MethodHandle OPTION = handle("getsockopt", FunctionDescriptor.of(ValueLayout.JAVA_INT,
                ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.ADDRESS,
                ValueLayout.ADDRESS));
        private static final MethodHandle SET_OPTION = handle("setsockopt", FunctionDescriptor.of(ValueLayout.JAVA_INT,
                ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.ADDRESS,
                ValueLayout.JAVA_INT));

        private static MethodHandle address(String name) {
            return handle(name, FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.ADDRESS,
                    ValueLayout.ADDRESS));
        }

        private static MethodHandle handle(String name, FunctionDescriptor type) {
            Linker linker = Linker.nativeLinker();
            SymbolLookup library = linker.defaultLookup();
            return linker.downcallHandle(library.findOrThrow(name), type);
        }

        /** Reads an address; returns whether the descriptor is a socket that has one. */
        static boolean address(MethodHandle which, int descriptor, MemorySegment into, MemorySegment length) {
            length.set(ValueLayout.JAVA_INT, 0, SOCKET_ADDRESS_BYTES);
            try {
                return (int) which.invokeExact(descriptor, into, length) == 0;
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
        }

        /** Reads an option of 4 bytes at most; returns whether the descriptor has it. */
        static boolean option(int descriptor, int level, int option, MemorySegment into, MemorySegment length) {
            length.set(ValueLayout.JAVA_INT, 0, Integer.BYTES);
            try {
                return (int) OPTION.invokeExact(descriptor, level, option, into, length) == 0;
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
        }

        static boolean setOption(int descriptor, int level, int option, MemorySegment value, long length) {
            try {
                return (int) SET_OPTION.invokeExact(descriptor, level, option, value, (int) length) == 0;
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
