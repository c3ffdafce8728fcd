package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.model.Networks;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FoldedTest {
    private final Generator generator = Generator.seeded(7);

    /** Gives normalisation layers statistics and weights as training would leave them. */
    private <T extends Layer> T trained(T model) {
        try (Scope scope = Scope.open("test")) {
            model.state().forEach((path, p) -> {
                if (p.shape().rank() == 1) {
                    p.set(generator.uniform(p.shape().dims()).add(0.2));
                }
            });
        }
        return model;
    }

    private void agrees(Layer model, long... shape) {
        Map<String, float[]> before = new LinkedHashMap<>();
        model.state().forEach((path, p) -> before.put(path, p.master().toFloats()));
        try (Scope scope = Scope.open("test")) {
            Tensor x = generator.normal(shape);
            float[] expected = model.forward(x).toFloats();
            Layer folded = model.folded();
            assertThat(folded.state().keySet()).noneMatch(path -> path.contains("running"));
            assertThat(folded.forward(x).toFloats()).containsExactly(expected, within(1e-3f));
            folded.close();
        }
        model.state().forEach((path, p) -> {
            if (!p.master().isClosed()) {
                assertThat(p.master().toFloats()).isEqualTo(before.get(path));
            }
        });
        assertThat(before.keySet()).anyMatch(path -> path.contains("running"));
    }

    @Test
    void foldsIntoConvolutionsWithAndWithoutBiasAndGroups() {
        agrees(trained(Sequential.of(Conv2d.of(4, 6, 3).groups(2).build(generator), BatchNorm.of(6), new Relu(),
                Conv2d.of(6, 3, 1).withoutBias().build(generator), BatchNorm.of(3))), 2, 4, 5, 5);
    }

    @Test
    void foldsIntoDenseLayers() {
        agrees(trained(Sequential.of(Linear.of(3, 5, generator), BatchNorm.of(5), new Relu(),
                Linear.withoutBias(5, 2, generator), BatchNorm.of(2))), 4, 3);
    }

    @Test
    void foldsInsideResidualBlocks() {
        agrees(trained(Networks.resnet18(generator, 5, 4)), 2, 3, 8, 8);
    }

    @Test
    void foldsInsideGraphsWhereOnlyNormalisationReadsTheConvolution() {
        agrees(trained(Graph.of(x -> {
            Graph.Node left = x.then("left", Conv2d.of(2, 3, 3).padding(1).build(generator))
                    .then("norm", BatchNorm.of(3)).then(new Relu());
            return left.add(x.then("right", Conv2d.of(2, 3, 1).build(generator)));
        })), 2, 2, 4, 4);
        try (Graph shared = trained(Graph.of(x -> {
            Graph.Node conv = x.then(Conv2d.of(2, 3, 1).build(generator));
            return conv.then(BatchNorm.of(3)).add(conv);
        })); Scope scope = Scope.open("test")) {
            Tensor x = generator.normal(2, 2, 4, 4);
            Layer folded = shared.folded();
            assertThat(folded.state().keySet()).anyMatch(path -> path.contains("running"));
            assertThat(folded.forward(x).toFloats()).isEqualTo(shared.forward(x).toFloats());
        }
    }

    @Test
    void foldsALayerThatStepsOfAGraphShareOnce() {
        Layer encoder = Sequential.of(Conv2d.of(2, 3, 1).build(generator), BatchNorm.of(3));
        agrees(trained(Graph.of(x -> x.then("encoder", encoder).add(x.then(new Relu()).then("encoder", encoder)))),
                2, 2, 4, 4);
        Layer conv = Conv2d.of(2, 2, 1).build(generator);
        Layer norm = BatchNorm.of(2);
        try (Graph shared = trained(Graph.of(x -> x.then("conv", conv).then("norm", norm).then("conv", conv)
                .then("norm", norm))); Scope scope = Scope.open("test")) {
            Tensor x = generator.normal(2, 2, 4, 4);
            Layer folded = shared.folded();
            assertThat(folded.state()).isEqualTo(shared.state());
            assertThat(folded.forward(x).toFloats()).isEqualTo(shared.forward(x).toFloats());
        }
    }

    @Test
    void foldsStepsOfAGraphOfRecords() {
        Model<Pixels, Score> model = Graph.of(Pixels.class, Score.class, in -> Map.of("y", in.get("x")
                .then("conv", Conv2d.of(2, 3, 1).build(generator)).then("norm", BatchNorm.of(3))));
        try (Scope scope = Scope.open("test")) {
            Pixels x = new Pixels(generator.normal(2, 2, 4, 4));
            Model<Pixels, Score> folded = model.folded();
            assertThat(folded.state().keySet()).containsExactly("conv.weight", "conv.bias");
            assertThat(folded.forward(x).y().toFloats()).containsExactly(model.forward(x).y().toFloats(),
                    within(1e-4f));
        }
    }

    /** The input of {@link Branch}. */
    record Pixels(Tensor x) { }

    /** The result of {@link Branch}. */
    record Score(Tensor y) { }

    /** A model of records with a layer of records inside. */
    record Branch(Block block) implements Model<Pixels, Score> {
        @Override
        public Score forward(Pixels in) {
            return new Score(block.apply(in.x()));
        }
    }

    /** A layer with a sequence inside. */
    record Block(Sequential body) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return body.apply(x).mul(2);
        }
    }

    @Test
    void foldsInsideRecords() {
        try (Branch model = new Branch(trained(new Block(Sequential.of(Linear.of(3, 5, generator), BatchNorm.of(5)))));
                Scope scope = Scope.open("test")) {
            Pixels x = new Pixels(generator.normal(4, 3));
            Model<Pixels, Score> folded = model.folded();
            assertThat(folded.state().keySet()).containsExactly("block.body.0.linear.weight",
                    "block.body.0.linear.bias");
            assertThat(folded.forward(x).y().toFloats()).containsExactly(model.forward(x).y().toFloats(),
                    within(1e-4f));
        }
    }

    @Test
    void leavesNormalisationBehindATransposedConvolution() {
        try (Sequential model = trained(Sequential.of(Conv2d.of(2, 3, 2).transposed().build(generator),
                BatchNorm.of(3))); Scope scope = Scope.open("test")) {
            Tensor x = generator.normal(1, 2, 3, 3);
            assertThat(model.folded().forward(x).toFloats()).isEqualTo(model.forward(x).toFloats());
        }
    }

    /** The channels of such an input are in the last dimension for the dense layer and in the second for the other. */
    @Test
    void refusesSequencesAfterADenseLayerWithFoldedNormalisation() {
        try (Sequential model = Sequential.of(Linear.of(3, 3, generator), BatchNorm.of(3));
                Sequential folded = model.folded(); Scope scope = Scope.open("test")) {
            assertThatThrownBy(() -> folded.forward(Tensor.zeros(2, 3, 3))).isInstanceOf(TensorException.class)
                    .hasMessageContaining("do not fold");
        }
    }
}
