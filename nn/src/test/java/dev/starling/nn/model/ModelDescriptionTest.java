package dev.starling.nn.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Tanh;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ModelDescriptionTest {
    private static boolean initialised;

    /** Perceptrons with a hidden layer. */
    public static final class Perceptrons implements ModelFactory {
        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            int hidden = Integer.parseInt(settings.get("hidden"));
            return Sequential.of(Linear.of(3, hidden, generator), new Tanh(), Linear.of(hidden, 2, generator));
        }
    }

    /** A class that is not a factory and that a hostile file may name. */
    public static final class NotAFactory {
        static {
            initialised = true;
        }
    }

    /** A factory that cannot be instantiated from outside. */
    public static final class PrivateFactory implements ModelFactory {
        private PrivateFactory() { }

        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            return new Tanh();
        }
    }

    @Test
    void restoresAModelFromBytes() {
        ModelDescription description = ModelDescription.of(Perceptrons.class, Map.of("hidden", "5", "note", "a=b"));
        assertThat(ModelDescription.of(description.metadata())).isEqualTo(description);
        Map<String, String> texts = new HashMap<>(description.metadata());
        texts.put("accuracy", "0.9");
        try (Scope scope = Scope.open(); Layer model = description.build(Generator.seeded(3));
                Layer again = ModelDescription.load(SafeTensors.of(SafeTensors.bytes(model.state(), texts)),
                        getClass().getClassLoader())) {
            Tensor x = Generator.seeded(4).normal(7, 3);
            assertThat(again.forward(x).toFloats()).isEqualTo(model.forward(x).toFloats());
        }
    }

    @Test
    void findsTheFactoryAlsoIfTheThreadsLoaderDoesNot() {
        ModelDescription description = ModelDescription.of(Perceptrons.class, Map.of("hidden", "5"));
        try (Layer model = description.build(ClassLoader.getPlatformClassLoader(), Generator.seeded(1))) {
            assertThat(model.parameters()).isNotEmpty();
        }
    }

    @ParameterizedTest
    @CsvSource({"dev.starling.Absent, there is no class", "java.lang.Runtime, must be public and implement",
        "dev.starling.nn.model.ModelDescriptionTest$NotAFactory, must be public and implement",
        "dev.starling.nn.model.ModelDescriptionTest$PrivateFactory, cannot be instantiated",
        "dev.starling.nn.model.ModelDescriptionTest$Perceptrons, rejects the settings {}",
        "'', there is no class", "'[I', must be public"})
    void refusesAClassThatIsNotAFactory(String factory, String message) {
        assertThatThrownBy(() -> new ModelDescription(factory, Map.of()).build(Generator.seeded(1)))
                .isInstanceOf(TensorException.class).hasMessageContaining(message);
        assertThat(initialised).isFalse();
    }

    @Test
    void refusesWeightsOfAnotherModel() {
        try (Layer model = ModelDescription.of(Perceptrons.class, Map.of("hidden", "5")).build(Generator.seeded(1))) {
            Map<String, String> other = ModelDescription.of(Perceptrons.class, Map.of("hidden", "6")).metadata();
            SafeTensors file = SafeTensors.of(SafeTensors.bytes(model.state(), other));
            assertThatThrownBy(() -> ModelDescription.load(file, getClass().getClassLoader()))
                    .isInstanceOf(CheckpointException.class).hasMessageContaining("0.weight");
            SafeTensors plain = SafeTensors.of(SafeTensors.bytes(model.state(), Map.of("k", "v")));
            assertThatThrownBy(() -> ModelDescription.load(plain, getClass().getClassLoader()))
                    .isInstanceOf(TensorException.class).hasMessageContaining("model.factory");
        }
    }
}
