package dev.starling.samples.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.Layer;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.Probe;
import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** Training on other devices than the processor. */
class DeviceTest {
    static boolean hasGpu() {
        return Device.probes().get("cuda") instanceof Probe.Ready;
    }

    @ParameterizedTest
    @ValueSource(strings = {"digits", "mnist", "cifar10"})
    @DisabledIf(value = "hasGpu", disabledReason = "there is a GPU")
    void shouldSayWhatIsMissing(String sample) {
        assertThat(complaint(sample, "--device", "cuda")).contains("device cuda:0", "NVIDIA", "use");
    }

    @Test
    void shouldSayHowADeviceIsNamed() {
        assertThat(complaint("digits", "--device", "cuda:first")).contains("cuda:N", "got cuda:first");
    }

    @Test
    void theFastNetworkTakesPhotographs() {
        try (Scope scope = Scope.open(); Layer network = Sample.fastCifar10().network().apply(Generator.seeded(1))) {
            Tensor logits = network.forward(Generator.seeded(2).uniform(2, 3, 32, 32));
            assertThat(logits.shape().dims()).containsExactly(2, 10);
            assertThat(network.parameters().values().stream().mapToLong(p -> p.shape().count()).sum())
                    .isBetween(1_500_000L, 2_500_000L);
        }
    }

    private static String complaint(String... arguments) {
        StringWriter errors = new StringWriter();
        int code = new CommandLine(new Train()).setErr(new PrintWriter(errors, true)).execute(arguments);
        assertThat(code).isEqualTo(1);
        return errors.toString();
    }
}
