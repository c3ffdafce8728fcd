package dev.starling.nn.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.LoraLinear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LoraTest {
    @TempDir
    Path directory;

    private final Generator generator = Generator.seeded(4);

    private static float[] compute(Layer layer, Tensor x) {
        try (Scope scope = Scope.open("test")) {
            return layer.forward(x).toFloats();
        }
    }

    private static Map<String, float[]> state(Layer layer) {
        Map<String, float[]> state = new HashMap<>();
        layer.state().forEach((path, p) -> state.put(path, p.master().toFloats()));
        return state;
    }

    /** {@code y = W·x + b + (alpha/rank)·B·(A·x)} by hand. */
    @Test
    void addsTheProductOfItsFactors() {
        Linear base = Linear.of(Parameter.of(Tensor.of(new float[] {1, 2, 3, 4}, 2, 2)),
                Parameter.of(Tensor.of(new float[] {10, 20}, 2)));
        LoraLinear layer = LoraLinear.of(base, 1, 3, generator);
        layer.parameters().get("lora_A").set(Tensor.of(new float[] {5, 6}, 1, 2));
        layer.parameters().get("lora_B").set(Tensor.of(new float[] {7, 8}, 2, 1));
        Tensor x = Tensor.of(new float[] {1, -2}, 1, 2);
        // A·x = -7; B·(A·x) = (-49, -56); times 3.
        assertThat(compute(layer, x)).containsExactly(1 - 4 + 10 - 147, 3 - 8 + 20 - 168);
        layer.merge();
        assertThat(base.weight().master().toFloats()).containsExactly(106, 128, 123, 148);
        assertThat(compute(base, x)).containsExactly(-140, -153).isEqualTo(compute(layer, x));
    }

    @Test
    void trainsAdaptersOnlyAndMergesThem() {
        Sequential base = Sequential.of(Linear.of(6, 16, generator), new Relu(), Linear.of(16, 3, generator));
        Tensor x = generator.normal(32, 6);
        Tensor y = generator.integers(0, 3, 32);
        Map<String, float[]> before = state(base);
        float[] untrained = compute(base, x);
        Lora<Sequential> lora = Lora.over(base).rank(2).alpha(4).dropout(0.1).build(generator);
        assertThat(compute(lora.model(), x)).as("starts as the base").isEqualTo(untrained);
        assertThat(lora.layers().keySet()).containsExactly("0", "2");
        assertThat(lora.parameters().keySet()).containsExactly("0.lora_A", "0.lora_B", "2.lora_A", "2.lora_B");
        try (Optimizer adam = Adam.over(lora.model()).rate(0.02).only(Lora::isAdapter).build();
                TrainingStep step = new TrainingStep(lora.model(), Loss.crossEntropy(), adam, generator)) {
            assertThat(adam.parameters()).hasSize(4);
            double first = step.run(x, y);
            double last = IntStream.range(0, 60).mapToDouble(i -> step.run(x, y)).min().orElseThrow();
            assertThat(last).isLessThan(0.7 * first);
        }
        Map<String, float[]> after = state(base);
        before.forEach((path, w) -> assertThat(after.get(path)).as(path).isEqualTo(w));
        float[] trained = compute(lora.model(), x);
        assertThat(trained).isNotEqualTo(untrained);
        assertThat(lora.merge()).isSameAs(base);
        assertThat(compute(base, x)).containsExactly(trained, within(2e-5f));
        assertThat(compute(lora.model(), x)).containsExactly(trained, within(2e-5f));
    }

    @Test
    void keepsAdaptersInAFileOfTheirOwn() throws Exception {
        Path file = directory.resolve("new/adapters.safetensors");
        Gpt2 base = Gpt2.of(31, 8, 16, 2, 2, generator);
        Tensor text = generator.integers(0, 31, 2, 5);
        Map<String, float[]> before = state(base);
        Lora<Gpt2> lora = Lora.over(base).rank(3).alpha(5).only(path -> path.endsWith("project")).build(generator);
        assertThat(lora.layers()).hasSize(2).containsKey("blocks.0.body.1.project");
        lora.parameters().values().forEach(p -> {
            try (Tensor drawn = generator.normal(p.shape().dims())) {
                p.set(drawn);
            }
        });
        float[] expected = compute(lora.model(), text);
        assertThat(expected).isNotEqualTo(compute(base, text));
        lora.save(file);
        assertThat(Files.size(file)).isLessThan(4000);
        assertThat(compute(Lora.load(file, base).model(), text)).isEqualTo(expected);
        Map<String, float[]> after = state(base);
        before.forEach((path, w) -> assertThat(after.get(path)).as(path).isEqualTo(w));

        Gpt2 wider = Gpt2.of(31, 8, 20, 2, 2, generator);
        assertThatThrownBy(() -> Lora.load(file, wider)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("f32[3, 16]").hasMessageContaining("f32[3, 20]");
        Sequential other = Sequential.of(Linear.of(2, 2, generator));
        assertThatThrownBy(() -> Lora.load(file, other)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("no layer blocks.0.body.1.project");
        Path whole = directory.resolve("model.safetensors");
        other.save(whole);
        assertThatThrownBy(() -> Lora.load(whole, other)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("lora.rank");
    }

    @Test
    void givesALayerInSeveralPlacesOneAdapter() {
        Linear shared = Linear.of(4, 4, generator);
        Sequential base = Sequential.of(shared, new Relu(), shared);
        Lora<Sequential> lora = Lora.over(base).rank(2).only("2"::equals).build(generator);
        assertThat(lora.layers().keySet()).containsExactly("0", "2");
        assertThat(lora.layers().get("2")).isSameAs(lora.layers().get("0"));
        assertThat(lora.parameters().keySet()).containsExactly("0.lora_A", "0.lora_B");
        lora.parameters().get("0.lora_B").set(Tensor.full(DType.F32, 0.1, 4, 2));
        Tensor x = generator.normal(3, 4);
        float[] untouched = compute(base, x);
        float[] adapted = compute(lora.model(), x);
        Path file = directory.resolve("shared.safetensors");
        lora.save(file);
        assertThat(compute(Lora.load(file, base).model(), x)).isEqualTo(adapted).isNotEqualTo(untouched);
        lora.merge();
        assertThat(compute(base, x)).containsExactly(adapted, within(2e-5f));
        assertThat(compute(lora.model(), x)).containsExactly(adapted, within(2e-5f));
    }

    @Test
    void mergesNoWeightThatAnotherLayerHas() {
        Linear first = Linear.of(4, 4, generator);
        Embedding embedding = Embedding.of(5, 4, generator);
        for (Sequential base : List.of(Sequential.of(first, Linear.of(first.weight(), null)),
                Sequential.of(embedding, Linear.of(embedding.weight(), null)))) {
            Lora<Sequential> lora = Lora.over(base).rank(2).build(generator);
            Parameter up = lora.parameters().get("1.lora_B");
            up.set(up.master().add(1));
            Map<String, float[]> before = state(base);
            assertThatThrownBy(lora::merge).isInstanceOf(TensorException.class).hasMessageContaining("0.weight");
            Map<String, float[]> after = state(base);
            before.forEach((name, w) -> assertThat(after.get(name)).as(name).isEqualTo(w));
        }
    }

    /** The memory that a file needs is at most proportional to its size, and a file that does not fit has no effect. */
    @Test
    void refusesAFileOfAnotherRankAndFreezesNothing() {
        Path file = directory.resolve("adapters.safetensors");
        Parameter down = Parameter.filled(1, 2, 6);
        Sequential base = Sequential.of(Linear.of(6, 3, generator));
        for (String rank : new String[] {"1000", "2"}) {
            SafeTensors.write(file, Map.of("0.lora_A", down), Map.of("lora.rank", rank, "lora.alpha", "1",
                    "lora.dropout", "0"));
            assertThatThrownBy(() -> Lora.load(file, base)).isInstanceOf(CheckpointException.class)
                    .hasMessageContaining(rank.equals("2") ? "has no tensor \"0.lora_B\""
                            : "0.lora_A is f32[2, 6], but the layer and the file's rank need f32[1000, 6]");
            assertThat(base.parameters().values()).allMatch(Parameter::requiresGradient);
        }
    }

    @Test
    void dropsElementsOfTheAdaptersInputInTrainingOnly() {
        Linear base = Linear.of(40, 3, generator);
        LoraLinear layer = LoraLinear.of(base, 4, 4, generator).dropout(0.5);
        Tensor x = generator.normal(2, 40);
        float[] plain = compute(base, x);
        assertThat(Mode.training(Generator.seeded(1), () -> compute(layer, x))).as("B is 0").isEqualTo(plain);
        layer.parameters().get("lora_B").set(generator.normal(3, 4));
        float[] inference = compute(layer, x);
        assertThat(compute(layer, x)).isEqualTo(inference);
        assertThat(Mode.training(Generator.seeded(1), () -> compute(layer, x))).isNotEqualTo(inference);
    }

    @Test
    void refusesToAdaptNothing() {
        Sequential base = Sequential.of(Linear.of(2, 2, generator));
        assertThatThrownBy(() -> Lora.over(base).only(path -> path.equals("1")).build(generator))
                .isInstanceOf(TensorException.class).hasMessageContaining("(0): Linear(2, 2)");
        assertThat(base.parameters().get("0.weight").requiresGradient()).isTrue();
        assertThatThrownBy(() -> Lora.over(base).rank(0).build(generator)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Lora.over(base).dropout(1).build(generator)).isInstanceOf(TensorException.class);
    }
}
