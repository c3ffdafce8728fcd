package dev.starling.study;

import com.sun.management.OperatingSystemMXBean;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Probe;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/**
 * The machine of a study.
 *
 * @param processors that the JVM may use
 * @param model of the processor
 * @param memoryGib memory in whole GiB
 * @param gpu description of the GPU, or {@code null} if there is none
 * @param java version of the JDK
 */
record Machine(int processors, String model, int memoryGib, String gpu, String java) {
    private static final long GIB = 1L << 30;

    /** Returns the machine that runs this program. */
    static Machine here() {
        long bytes = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getTotalMemorySize();
        return new Machine(Runtime.getRuntime().availableProcessors(), processor(), (int) (bytes / GIB),
                Device.probes().get("cuda") instanceof Probe.Ready ready ? ready.description() : null,
                Integer.toString(Runtime.version().feature()));
    }

    private static String processor() {
        try (Stream<String> lines = Files.lines(Path.of("/proc/cpuinfo"))) {
            return lines.filter(line -> line.startsWith("model name")).findFirst()
                    .map(line -> line.substring(line.indexOf(':') + 1).strip()).orElse(System.getProperty("os.arch"));
        } catch (IOException e) {
            return System.getProperty("os.arch");
        }
    }

    /** Returns a line for captions. */
    String describe() {
        return processors + (processors == 1 ? " processor" : " processors") + " (" + model + "), " + memoryGib
                + " GiB, " + (gpu == null ? "no GPU" : gpu) + ", JDK " + java;
    }
}
