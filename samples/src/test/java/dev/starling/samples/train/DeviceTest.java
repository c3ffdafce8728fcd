package dev.starling.samples.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.Layer;
import dev.starling.tensor.DType;
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
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** Tests training on GPUs. */
class DeviceTest {
    static boolean hasGpu() {
        return Device.probes().get("cuda") instanceof Probe.Ready;
    }

    @ParameterizedTest
    @ValueSource(strings = {"digits", "mnist", "cifar10"})
    @DisabledIf(value = "hasGpu", disabledReason = "there is a GPU")
    void reportsAMissingDevice(String sample) {
        assertThat(errorOf(sample, "--device", "cuda")).contains("device cuda:0", "NVIDIA", "use");
    }

    @Test
    void explainsTheNamesOfDevices() {
        assertThat(errorOf("digits", "--device", "cuda:first")).contains("cuda:N", "got cuda:first");
    }

    @Test
    void buildsTheFastNetworkForPhotographs() {
        Sample fast = Sample.cifar10(true, false);
        try (Scope scope = Scope.open(); Layer network = fast.network().apply(Generator.seeded(1))) {
            Tensor logits = network.forward(Generator.seeded(2).uniform(2, 3, 32, 32));
            assertThat(logits.shape().dims()).containsExactly(2, 10);
            assertThat(network.parameters().values().stream().mapToLong(p -> p.shape().count()).sum())
                    .isBetween(1_500_000L, 2_500_000L);
        }
    }

    @ParameterizedTest
    @CsvSource({"--device cpu, 128, f32, false", "--device cpu --fast, 512, f32, false",
            "--device cuda, 512, bf16, true", "--device cuda:1 --fast, 512, bf16, true",
            "--device cuda --no-fast, 128, f32, false", "--device cuda-emulated, 128, f32, false"})
    void usesTheFastRecipeOnAGpuByDefault(String arguments, int batch, String precision, boolean captured) {
        TrainOptions options = new TrainOptions();
        new CommandLine(options).setUnmatchedArgumentsAllowed(true).parseArgs(arguments.split(" "));
        Boolean fast = arguments.contains("--fast") ? Boolean.TRUE : arguments.contains("--no-fast") ? Boolean.FALSE
                : null;
        Sample sample = Sample.cifar10(fast, options.isOnGpu());
        assertThat(sample.batchSize()).isEqualTo(batch);
        assertThat(sample.precision()).hasToString(precision);
        assertThat(sample.captured()).isEqualTo(captured);
        assertThat(sample.choice() != null).isEqualTo(batch == 512);
        assertThat(options.precision).isNull();
        assertThat(options.captured).isNull();
    }

    @Test
    void distinguishesAbsentFromNegatedOptions() {
        TrainOptions options = new TrainOptions();
        new CommandLine(options).parseArgs("--no-captured", "--precision", "f32");
        assertThat(options.captured).isFalse();
        assertThat(options.precision).isEqualTo(DType.F32);
        new CommandLine(options).parseArgs("--captured");
        assertThat(options.captured).isTrue();
    }

    @Test
    void givesEachWorkerAGpuOfItsOwnIfThereAreEnough() {
        Placement third = Placement.of("cuda", 2, 4, 4, false);
        assertThat(third.device()).isEqualTo(Device.cuda(2));
        assertThat(third.warning()).isNull();
        Placement shared = Placement.of("cuda", 3, 4, 2, false);
        assertThat(shared.device()).isEqualTo(Device.cuda(1));
        assertThat(shared.warning()).contains("4 workers share 2 GPUs");
        Placement requested = Placement.of("cuda:1", 0, 2, 1, false);
        assertThat(requested.device()).isEqualTo(Device.cuda(1));
        assertThat(requested.warning()).contains("share cuda:1", "--device cuda ");
        assertThat(Placement.of("cuda", 3, 4, 1, true)).as("the only GPU that the launcher made visible")
                .isEqualTo(new Placement(Device.cuda(0), null));
        assertThat(Placement.of("cpu", 3, 4, 1, false)).isEqualTo(new Placement(Device.cpu(), null));
    }

    private static String errorOf(String... arguments) {
        StringWriter errors = new StringWriter();
        int code = new CommandLine(new Train()).setErr(new PrintWriter(errors, true)).execute(arguments);
        assertThat(code).isEqualTo(1);
        return errors.toString();
    }
}
