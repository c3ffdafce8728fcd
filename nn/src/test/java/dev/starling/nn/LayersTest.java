package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MultiHeadAttention;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.layer.SwiGlu;
import dev.starling.nn.layer.TransformerDecoderLayer;
import dev.starling.nn.layer.TransformerEncoderLayer;
import dev.starling.nn.model.Gpt2;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.junit.jupiter.api.Test;

class LayersTest {
    private final Generator generator = Generator.seeded(1);

    private static float[] compute(Layer layer, long... shape) {
        try (Scope scope = Scope.open("test")) {
            return layer.forward(Generator.seeded(2).normal(shape)).toFloats();
        }
    }

    @Test
    void replacesAHeadAndSharesEverythingElse() {
        Sequential model = Sequential.of(Linear.of(3, 4, generator), new Relu(), Linear.of(4, 2, generator));
        float[] before = compute(model, 5, 3);
        Linear head = Linear.of(4, 7, generator);
        Sequential tuned = Layers.replace(model, "2", head);
        assertThat(compute(tuned, 5, 3)).hasSize(35).isEqualTo(compute(Sequential.of(model.layers().get(0), new Relu(),
                head), 5, 3));
        assertThat(tuned.state().get("0.weight")).isSameAs(model.state().get("0.weight"));
        assertThat(tuned.state().get("2.weight")).isSameAs(head.weight());
        assertThat(compute(model, 5, 3)).isEqualTo(before);
    }

    /** The activation behind the layer is computed by the new layer if it can, as by the old one. */
    @Test
    void replacesLayersOfAGraphBeforeAndBehindAnActivation() {
        Linear first = Linear.of(3, 4, generator);
        Linear second = Linear.of(4, 4, generator);
        Linear other = Linear.of(3, 4, generator);
        Graph graph = graph(first, second);
        assertThat(compute(Layers.replace(graph, "first", other), 5, 3)).isEqualTo(compute(graph(other, second), 5, 3));
        assertThat(compute(Layers.replace(graph, "second", new Flatten()), 5, 3))
                .isEqualTo(compute(graph(first, new Flatten()), 5, 3));
        assertThat(compute(graph, 5, 3)).isEqualTo(compute(graph(first, second), 5, 3));
    }

    private static Graph graph(Layer first, Layer second) {
        return Graph.of(x -> {
            Graph.Node trunk = x.then("first", first).then("relu", new Relu());
            return trunk.add(trunk.then("second", second));
        });
    }

    @Test
    void findsItsWayThroughTheLayersOfTheLibrary() {
        Sequential model = Sequential.of(Residual.of(Sequential.of(MultiHeadAttention.of(4, 2, generator)),
                Linear.of(4, 4, generator)), SwiGlu.of(4, 6, generator), TransformerEncoderLayer.of(4, 2, 5,
                generator), Linear.of(4, 4, generator));
        for (String path : List.of("0.body.0.project", "0.body.0.out", "0.shortcut", "1.gate", "1.up", "1.down",
                "2.attention.project", "2.attention.out", "2.perceptron.first", "2.perceptron.second", "3")) {
            Linear before = (Linear) Layers.find(model, path);
            Linear after = Linear.of(before.weight().shape().dim(1), before.weight().shape().dim(0), generator);
            Sequential changed = Layers.replace(model, path, after);
            assertThat(Layers.find(changed, path)).as(path).isSameAs(after);
            assertThat(changed.state().keySet().stream().filter(each -> !each.startsWith(path)))
                    .containsExactlyElementsOf(model.state().keySet().stream().filter(each -> !each.startsWith(path))
                            .toList());
            assertThat(compute(changed, 2, 3, 4)).as(path).isNotEqualTo(compute(model, 2, 3, 4));
        }
        TransformerDecoderLayer decoder = TransformerDecoderLayer.of(4, 2, 5, generator);
        for (String path : List.of("attention.out", "cross.out", "perceptron.activation")) {
            Linear other = Linear.of(4, 4, generator);
            assertThat(Layers.find(Layers.replace(decoder, path, other), path)).as(path).isSameAs(other);
        }
        Gpt2 gpt = Gpt2.of(11, 8, 4, 1, 2, generator);
        Gpt2 changed = Layers.replace(gpt, "blocks.0.body.1.project", Linear.of(4, 12, generator));
        try (Scope scope = Scope.open("test")) {
            Tensor text = Generator.seeded(2).integers(0, 11, 2, 5);
            assertThat(changed.forward(text).toFloats()).isNotEqualTo(gpt.forward(text).toFloats());
        }
    }

    /** A module that is a record is created again with another component. */
    private record House(Layer trunk, Linear price) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return price.apply(trunk.apply(x));
        }
    }

    @Test
    void replacesComponentsOfARecord() {
        House house = new House(Sequential.of(Linear.of(3, 4, generator), new Relu()), Linear.of(4, 1, generator));
        Linear other = Linear.of(4, 6, generator);
        House changed = Layers.replace(house, "price", other);
        assertThat(changed).isEqualTo(new House(house.trunk, other));
        Linear first = Linear.of(3, 4, generator);
        assertThat(Layers.find(Layers.replace(changed, "trunk.0", first), "trunk.0")).isSameAs(first);
        assertThatThrownBy(() -> Layers.replace(house, "price", new Relu())).isInstanceOf(TensorException.class)
                .hasMessageContaining("price is a Linear, not a Relu");
    }

    @Test
    void namesThePathsThatThereAre() {
        Sequential model = Sequential.of(Residual.of(Linear.of(3, 3, generator)));
        assertThatThrownBy(() -> Layers.replace(model, "0.head", new Relu())).isInstanceOf(TensorException.class)
                .hasMessageContaining("no layer 0.head").hasMessageContaining("[0, 0.body]");
        assertThatThrownBy(() -> Layers.replace(model, "0.", new Relu())).isInstanceOf(TensorException.class)
                .hasMessageContaining("no layer 0.");
        assertThatThrownBy(() -> Graph.of(x -> x.then("block.fc", new Relu()))).isInstanceOf(TensorException.class)
                .hasMessageContaining("contain a dot, got \"block.fc\"");
        Layer closed = new Layer() {
            @Override
            public Tensor forward(Tensor x) {
                return model.forward(x);
            }

            @Override
            public void visit(Visitor visitor) {
                visitor.layer("inner", model);
            }
        };
        assertThatThrownBy(() -> Layers.replace(closed, "inner.0.body", new Relu())).isInstanceOf(TensorException.class)
                .hasMessageContaining("around inner").hasMessageContaining("implement Container");
        assertThatThrownBy(() -> model.with("1", new Relu())).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Layers.replace(Gpt2.of(11, 8, 4, 1, 2, generator), "tokens", new Relu()))
                .isInstanceOf(TensorException.class).hasMessageContaining("tokens");
    }
}
