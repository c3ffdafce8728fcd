package dev.starling.tensor.host;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** On the class path of a small Java image, the modules of Flight Recorder and of management may be missing. */
@Timeout(60)
class MissingModulesTest {
    @Test
    void tensorsNeedOnlyTheBaseModule() throws Exception {
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "--limit-modules",
                "java.base", "--enable-native-access=ALL-UNNAMED", "-Xmx256m", "-cp",
                System.getProperty("java.class.path"), MissingModulesTest.class.getName()).redirectErrorStream(true)
                .start();
        try {
            assertThat(process.waitFor(50, TimeUnit.SECONDS)).isTrue();
            assertThat(new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8))
                    .contains("memory unknown: true, sum 4.0");
        } finally {
            process.destroyForcibly();
        }
    }

    /** Makes more tensors than the allocator grants without asking for the memory of the machine. */
    public static void main(String[] arguments) {
        List<Tensor> kept = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            kept.add(Tensor.full(DType.F32, 1, 25_000_000));
        }
        double sum = kept.stream().mapToDouble(tensor -> tensor.mean().item()).sum();
        System.out.println("memory unknown: " + (PhysicalMemory.BYTES == Long.MAX_VALUE) + ", sum " + sum);
    }
}
