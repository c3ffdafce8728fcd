package dev.starling.transport.aeron;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.TransportException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class WireDirectoryTest {
    private static final int SWEEPERS = 4;
    private static final int ROUNDS = 30;

    /** Makes directories of processes that were killed: nothing holds their locks. */
    private static void abandon(Path base, int round) throws Exception {
        for (int i = 0; i < 5; i++) {
            Path publications = base.resolve("starling-aeron-" + (2_000_000_000 + round) + '-' + i)
                    .resolve("driver/publications");
            Files.createDirectories(publications);
            for (int file = 0; file < 20; file++) {
                Files.createFile(publications.resolve(file + ".logbuffer"));
            }
        }
    }

    /** The directory is one in which every user of the host may put things. */
    @Test
    void findsNoEndpointInWhatIsNoAnnouncement(@TempDir Path base) throws Exception {
        Path pipe = Files.createDirectory(base.resolve("starling-aeron-1-0")).resolve("wire");
        assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();
        Files.createFile(Files.createDirectory(base.resolve("starling-aeron-1-1")).resolve("wire"));
        Files.createSymbolicLink(Files.createDirectory(base.resolve("starling-aeron-1-2")).resolve("wire"),
                Path.of("/dev/zero"));
        Files.write(Files.createDirectory(base.resolve("starling-aeron-1-3")).resolve("wire"), new byte[1 << 20]);
        Files.writeString(base.resolve("starling-aeron-1-4"), "no directory");
        assertThat(WireDirectory.find(base, "127.0.0.1:7")).isNull();
    }

    /** Containers that share the directory may count their processes apart. */
    @Test
    void knowsProcessesOfTheSameNumberByTheirLocks(@TempDir Path base) throws Exception {
        Path other = Files.createDirectory(base.resolve("starling-aeron-" + ProcessHandle.current().pid() + "-x-1"));
        try (WireDirectory own = WireDirectory.create(base)) {
            try (FileChannel lock = FileChannel.open(other.resolve("lock"), StandardOpenOption.CREATE,
                    StandardOpenOption.WRITE)) {
                lock.lock();
                assertThat(WireDirectory.sweep(base)).isZero();
            }
            assertThat(WireDirectory.sweep(base)).isOne();
            assertThat(other).doesNotExist();
            assertThat(own.driver().getParent()).exists();
        }
        assertThat(base).isEmptyDirectory();
    }

    /** Returns a copy of the class, as a second application of the same server would load it. */
    private static Class<?> copy() throws ClassNotFoundException {
        String copied = WireDirectory.class.getName();
        return new ClassLoader(WireDirectory.class.getClassLoader()) {
            @Override
            protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
                if (!name.startsWith(copied)) {
                    return super.loadClass(name, resolve);
                }
                Class<?> known = findLoadedClass(name);
                if (known != null) {
                    return known;
                }
                try (InputStream in = Objects.requireNonNull(
                        getResourceAsStream(name.replace('.', '/') + ".class"))) {
                    byte[] bytes = in.readAllBytes();
                    return defineClass(name, bytes, 0, bytes.length);
                } catch (IOException e) {
                    throw new ClassNotFoundException(name, e);
                }
            }
        }.loadClass(copied);
    }

    private static Object call(Class<?> copy, String method, Path base) throws ReflectiveOperationException {
        Method found = copy.getDeclaredMethod(method, Path.class);
        found.setAccessible(true);
        return found.invoke(null, base);
    }

    /** To open and close a lock file would end the lock that this process holds on it through another class loader. */
    @Test
    void leavesTheLockFilesOfOtherClassLoadersAlone(@TempDir Path base) throws Exception {
        Class<?> copy = copy();
        try (WireDirectory own = WireDirectory.create(base);
                AutoCloseable other = (AutoCloseable) call(copy, "create", base)) {
            assertThat(copy).isNotSameAs(WireDirectory.class);
            assertThat(other).isNotInstanceOf(WireDirectory.class);
            Files.delete(own.driver().resolveSibling("lock")); // Where it is looked for, the wire counts as dead.
            assertThat(call(copy, "sweep", base)).isEqualTo(0);
            assertThat(own.driver().getParent()).exists();
        }
        assertThat(base).isEmptyDirectory();
    }

    @Test
    void sweepsWhileOtherProcessesSweep(@TempDir Path base) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(SWEEPERS);
        try (ExecutorService pool = Executors.newFixedThreadPool(SWEEPERS)) {
            for (int round = 0; round < ROUNDS; round++) {
                abandon(base, round);
                Callable<Integer> sweep = () -> {
                    barrier.await(10, TimeUnit.SECONDS);
                    return WireDirectory.sweep(base);
                };
                List<Future<Integer>> sweeps = new ArrayList<>();
                for (int i = 0; i < SWEEPERS; i++) {
                    sweeps.add(pool.submit(sweep));
                }
                for (Future<Integer> each : sweeps) {
                    each.get(20, TimeUnit.SECONDS);
                }
                WireDirectory.sweep(base);
                assertThat(base).as("round %d", round).isEmptyDirectory();
            }
        }
    }

    /** Returns how many files below a directory this process has open. */
    private static long open(Path base) throws IOException {
        try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
            String real = base.toRealPath().toString();
            return descriptors.filter(each -> target(each).startsWith(real)).count();
        }
    }

    private static String target(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString();
        } catch (IOException e) {
            return ""; // Closed by now.
        }
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void leavesNoFileOpenIfItCannotBeCreated(@TempDir Path base) throws Exception {
        try (WireDirectory first = WireDirectory.create(base)) {
            String name = first.driver().getParent().getFileName().toString();
            int number = name.lastIndexOf('-') + 1;
            Path next = base.resolve(name.substring(0, number) + (Integer.parseInt(name.substring(number)) + 1));
            Files.createFile(Files.createDirectory(next).resolve("in the way"));
            assertThatThrownBy(() -> WireDirectory.create(base)).isInstanceOf(TransportException.class)
                    .hasMessageContaining("cannot create a directory in " + base);
            assertThat(open(base)).as("the lock of the first").isOne();
        }
    }

    /** A path that is longer than the system allows cannot be deleted by its name. */
    @Test
    @EnabledOnOs(OS.LINUX)
    void endsItsLockAlsoWhereFilesRemain(@TempDir Path base) throws Exception {
        WireDirectory directory = WireDirectory.create(base);
        try {
            shell("n=$(printf %0200d 0); n=$n/$n/$n/$n/$n/$n/$n/$n; cd " + directory.driver().getParent()
                    + "; mkdir -p $n; cd $n; mkdir -p $n; cd -P $n; mkdir -p $n");
            assertThatThrownBy(directory::close).isInstanceOf(TransportException.class)
                    .hasMessageContaining("cannot delete");
            assertThat(open(base)).isZero();
        } finally {
            shell("rm -rf " + base + "/*");
        }
    }

    private static void shell(String commands) throws Exception {
        assertThat(new ProcessBuilder("/bin/sh", "-c", commands).start().waitFor()).isZero();
    }

    /** As in a container whose list of users lacks that of the process. */
    @Test
    @EnabledOnOs(OS.LINUX)
    void sweepsDirectoriesOfAUserWithoutName(@TempDir Path base) throws Exception {
        String name = System.getProperty("user.name");
        System.setProperty("user.name", "?");
        try {
            abandon(base, 0);
            assertThat(WireDirectory.sweep(base)).isEqualTo(5);
        } finally {
            System.setProperty("user.name", name);
        }
    }
}
