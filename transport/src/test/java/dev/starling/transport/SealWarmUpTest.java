package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.frame.Frame;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class SealWarmUpTest {
    /** Prints how many times as fast large frames are sealed after the warm-up as in a process that has just begun. */
    static final class Program {
        private static final int BODY = 128 << 10;
        private static final int COLD = 20;
        /** So few, with the cold ones, that the JVM would not compile the algorithm because of them. */
        private static final int MEASURED = 40;

        private final FrameSeal seal = FrameSeal.of(Protection.ENCRYPTED);
        private final byte[] body = new byte[BODY];
        private final byte[] frame = new byte[Frame.HEADER + BODY + FrameSeal.TAG];
        private long nonce;

        public static void main(String[] arguments) throws InterruptedException {
            Program program = new Program();
            program.seal.use(new byte[32]);
            double cold = program.timePerFrame(COLD);
            int frames = SealWarmUp.run(Protection.ENCRYPTED);
            double fastest = Double.MAX_VALUE;
            for (int i = 0; i < MEASURED; i++) {
                Thread.sleep(50);
                fastest = Math.min(fastest, program.timePerFrame(1));
            }
            System.out.println(frames + " " + cold / fastest);
        }

        private double timePerFrame(int frames) {
            long start = System.nanoTime();
            for (int i = 0; i < frames; i++) {
                seal.seal(body, BODY, nonce++, frame);
            }
            return (double) (System.nanoTime() - start) / frames;
        }
    }

    @Test
    void letsFramesBeSealedAtTheSpeedOfTheProcessor() throws Exception {
        Path processor = Path.of("/proc/cpuinfo");
        assumeTrue(Files.isReadable(processor) && Files.readString(processor).contains(" aes "));
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-Xmx64m",
                "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"), Program.class.getName())
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        List<String> lines = process.inputReader().lines().toList();
        assertThat(process.waitFor()).isZero();
        String[] words = lines.getFirst().split(" ");
        assertThat(Integer.parseInt(words[0])).isPositive();
        assertThat(Double.parseDouble(words[1])).isGreaterThan(5);
    }

    @ParameterizedTest
    @EnumSource(names = "PLAIN", mode = EnumSource.Mode.EXCLUDE)
    void endsWithinItsTime(Protection protection) {
        long start = System.nanoTime();
        assertThat(SealWarmUp.run(protection)).isBetween(1, 3_000);
        assertThat((System.nanoTime() - start) / 1e9).isLessThan(10);
    }
}
