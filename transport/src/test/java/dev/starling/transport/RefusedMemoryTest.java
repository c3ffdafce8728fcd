package dev.starling.transport;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

/** Where a filter of system calls, such as that of a container, or a limit refuses memory without a name. */
class RefusedMemoryTest {
    private static final Map<String, Integer> MEMFD_CREATE = Map.of("amd64", 319, "aarch64", 279);
    private static final int NO_NEW_PRIVILEGES = 38;
    private static final int FILTER = 22;
    private static final String NO_FILTER = "this system filters no calls";

    @Test
    @EnabledOnOs(OS.LINUX)
    void regionsAreThenNotShared() throws Exception {
        assumeTrue(MEMFD_CREATE.containsKey(System.getProperty("os.arch")));
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "--add-exports",
                "java.base/jdk.internal.misc=ALL-UNNAMED", "--enable-native-access=ALL-UNNAMED", "-cp",
                System.getProperty("java.class.path"), RefusedMemoryTest.class.getName()).redirectErrorStream(true)
                .start();
        try {
            assertThat(process.waitFor(50, TimeUnit.SECONDS)).isTrue();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assumeTrue(!output.contains(NO_FILTER), NO_FILTER);
            assertThat(output).contains("the system refuses memfd_create (errno 1)").contains("registered 4711, 4712");
        } finally {
            process.destroyForcibly();
        }
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void theLimitOfTheSizeOfFilesIsNamed() throws Exception {
        Process process = new ProcessBuilder("sh", "-c", "ulimit -f 1000; exec \"$@\"", "sh",
                ProcessHandle.current().info().command().orElseThrow(), "-XX:-UsePerfData", "--add-exports",
                "java.base/jdk.internal.misc=ALL-UNNAMED", "--enable-native-access=ALL-UNNAMED", "-cp",
                System.getProperty("java.class.path"), Limited.class.getName()).redirectErrorStream(true).start();
        try {
            assertThat(process.waitFor(50, TimeUnit.SECONDS)).isTrue();
            assertThat(new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8)).contains("File too "
                    + "large; raise the limit of the size of files (ulimit -f), which applies to this memory, too");
        } finally {
            process.destroyForcibly();
        }
    }

    /** Registers memory beyond the limit of the size of files. */
    static final class Limited {
        private Limited() {
        }

        public static void main(String[] arguments) {
            try (Transport transport = Transport.open(TransportConfig.of("local", Secret.random()))) {
                System.out.println("registered " + transport.register(4 << 20).memory().byteSize());
            } catch (TransportException e) {
                System.out.println(e.getMessage());
            }
        }
    }

    /** The process with the filter. */
    public static void main(String[] arguments) throws Throwable {
        try (Arena arena = Arena.ofConfined()) {
            // Load the number of the call; if it is the refused one, then fail with errno 1, else allow it.
            MemorySegment program = arena.allocateFrom(JAVA_LONG, 0x20, 0x15 | 1L << 24
                    | (long) MEMFD_CREATE.get(System.getProperty("os.arch")) << 32, 6 | 0x00050001L << 32,
                    6 | 0x7fff0000L << 32);
            MemorySegment filter = arena.allocate(16, 8);
            filter.set(JAVA_INT, 0, 4);
            filter.set(ADDRESS, 8, program);
            Linker linker = Linker.nativeLinker();
            MethodHandle control = linker.downcallHandle(linker.defaultLookup().findOrThrow("prctl"),
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG),
                    Linker.Option.firstVariadicArg(1));
            MemorySegment none = MemorySegment.NULL;
            if ((int) control.invokeExact(NO_NEW_PRIVILEGES, 1L, none, 0L, 0L) != 0
                    || (int) control.invokeExact(FILTER, 2L, filter, 0L, 0L) != 0) {
                System.out.println(NO_FILTER);
                return;
            }
        }
        try (Transport transport = Transport.open(TransportConfig.of("local", Secret.random()))) {
            System.out.println("registered " + transport.register(4711).memory().byteSize() + ", "
                    + transport.registerSparse(4712).memory().byteSize());
        }
    }
}
