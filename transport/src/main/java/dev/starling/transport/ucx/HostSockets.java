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
 * Tunes the TCP connections of a wire with processes of the same host. There is no network between them that could be
 * congested; a congestion control that measures it and paces what is sent, as {@code bbr} does, only costs processor
 * time. Nor is a large send buffer needed, and data that are copied into the kernel and out again are copied faster
 * while they are in the processors' caches.
 *
 * <p>UCX has no setting for this and does not reveal its sockets. So this class finds them among all sockets of the
 * process, except those that were open before the wire was. One limitation remains: a connection from an address to the
 * same address that the application, or another wire, opens after this wire is tuned along with the wire's.
 */
final class HostSockets {
    /** A larger send buffer is of no use. Linux allocates twice this size, and counts its own overhead in it. */
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
    /**
     * Congestion controls that react to loss only, the faster first; the system may reserve some for privileged users.
     */
    private static final String[] UNPACED = {"cubic", "reno"};

    private final int sendBytes;
    /** Names of the sockets that do not belong to the wire, as the kernel gives them. */
    private final Set<String> others = new HashSet<>();

    /** Records all sockets of the process, before a wire opens its own. */
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
            // Not Linux: later no socket is found, either.
            others.clear();
        }
    }

    /**
     * Turns off pacing for all sockets opened since, and limits their send buffers; returns how many sockets were
     * changed.
     */
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
                    done += disablePacing(descriptor, names) ? 1 : 0;
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            // Not Linux: the sockets remain unchanged.
            return done;
        }
        return done;
    }

    /** Returns the target of a descriptor, such as {@code socket:[4711]}, or an empty text if it is closed by now. */
    private static String target(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString();
        } catch (IOException e) {
            return "";
        }
    }

    /**
     * Returns whether the system grants a send buffer of this size. If its limit ({@code net.core.wmem_max}) is lower,
     * a socket that requests no size may get more: the kernel then grows the buffer up to {@code net.ipv4.tcp_wmem}.
     */
    private boolean isGranted() throws IOException {
        try (Socket probe = new Socket()) {
            probe.setSendBufferSize(sendBytes);
            return probe.getSendBufferSize() >= sendBytes;
        }
    }

    private static boolean disablePacing(int descriptor, MemorySegment[] names) {
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

    /** Functions of the C library for which Java has no method. */
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
