package dev.starling.transport.ucx;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * This process's TCP connections with processes of the same host. There is no network between them that could be
 * congested; a congestion control that measures it and paces what is sent, as {@code bbr} does, only takes the
 * processors' time. UCX has no setting for it, so its sockets are found among all that the process has.
 */
final class HostSockets {
    private static final int TCP = 6;
    private static final int CONGESTION = 13;
    private static final short INET = 2;
    private static final short INET6 = 10;
    private static final int SOCKET_ADDRESS_BYTES = 28;
    /** What only reacts to loss, the faster first; the system may not let everybody choose it. */
    private static final String[] UNPACED = {"cubic", "reno"};

    private HostSockets() {
    }

    /** Has all of them send without pacing; returns how many do. */
    static int doNotPace() {
        int done = 0;
        try (Arena arena = Arena.ofConfined();
                DirectoryStream<Path> descriptors = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            MemorySegment[] names = new MemorySegment[UNPACED.length];
            for (int i = 0; i < names.length; i++) {
                names[i] = arena.allocateFrom(UNPACED[i]);
            }
            MemorySegment here = arena.allocate(SOCKET_ADDRESS_BYTES, Integer.BYTES);
            MemorySegment there = arena.allocate(SOCKET_ADDRESS_BYTES, Integer.BYTES);
            MemorySegment length = arena.allocate(ValueLayout.JAVA_INT);
            for (Path path : descriptors) {
                int descriptor = Integer.parseInt(path.getFileName().toString());
                if (Calls.address(Calls.OWN_ADDRESS, descriptor, here, length)
                        && Calls.address(Calls.PEERS_ADDRESS, descriptor, there, length) && isSameHost(here, there)) {
                    done += doNotPace(descriptor, names) ? 1 : 0;
                }
            }
        } catch (IOException e) {
            // No Linux: they stay as they are.
            return done;
        }
        return done;
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

        static boolean setOption(int descriptor, int level, int option, MemorySegment value, long length) {
            try {
                return (int) SET_OPTION.invokeExact(descriptor, level, option, value, (int) length) == 0;
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
