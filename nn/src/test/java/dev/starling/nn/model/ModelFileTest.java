package dev.starling.nn.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.data.Field;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ModelFileTest {
    @TempDir
    Path directory;

    private static Sequential model(long seed, long width) {
        Generator g = Generator.seeded(seed);
        return Sequential.of(Linear.of(3, width, g), BatchNorm.of(width), Linear.withoutBias(width, 2, g));
    }

    private static float[] compute(Layer model) {
        try (Scope scope = Scope.open("test")) {
            return model.forward(Generator.seeded(3).normal(5, 3)).toFloats();
        }
    }

    @Test
    void bringsBackWeightsBuffersAndMetadata() {
        Path file = directory.resolve("new/model.safetensors");
        ModelMetadata metadata = ModelMetadata.none().version("2.1").classes("cat", "a \"dog\", big", "")
                .inputs(Field.of(DType.F32, 3, 32, 32), Field.of(DType.BOOL), Field.of("town: [x]", DType.I64, 2),
                        Field.padded("text", DType.I64, -100, 7), Field.padded("", DType.F32, Double.NaN, 7, 2),
                        Field.mask("there", 7))
                .metric("accuracy", 0.1 + 0.2)
                .metric("worst", Double.NEGATIVE_INFINITY).note("written by", "Zoë\n“B”")
                .description(new ModelDescription("some.Factory", Map.of("width", "7")));
        try (Sequential saved = model(1, 4); Sequential loaded = model(2, 4)) {
            try (Scope scope = Scope.open("test")) {
                Mode.training(Generator.seeded(0), () -> saved.forward(Generator.seeded(9).normal(20, 3)));
            }
            saved.save(file, metadata);
            assertThat(compute(loaded)).isNotEqualTo(compute(saved));
            assertThat(loaded.load(file)).isEqualTo(metadata);
            assertThat(compute(loaded)).isEqualTo(compute(saved));
            assertThat(loaded.state().get("1.running_mean").master().toFloats()).isNotEqualTo(new float[4]);
            assertThat(ModelFile.metadata(file)).isEqualTo(metadata);
            saved.save(file);
            assertThat(ModelFile.metadata(file)).isEqualTo(ModelMetadata.none());
        }
    }

    @Test
    void namesAllDifferencesAndChangesNothing() {
        Path file = directory.resolve("model.safetensors");
        try (Sequential saved = model(1, 4); Sequential wider = model(2, 5);
                Sequential other = Sequential.of(Linear.of(3, 4, Generator.seeded(2)))) {
            saved.save(file);
            float[] before = compute(wider);
            assertThatThrownBy(() -> wider.load(file)).isInstanceOf(CheckpointException.class)
                    .hasMessageContaining("\"0.weight\" as f32[4, 3], but the model needs f32[5, 3]")
                    .hasMessageContaining("\"2.weight\" as f32[2, 4], but the model needs f32[2, 5]")
                    .hasMessageContaining("model.safetensors");
            assertThat(compute(wider)).isEqualTo(before);
            assertThatThrownBy(() -> other.load(file)).isInstanceOf(CheckpointException.class)
                    .hasMessageContaining("\"1.weight\" that the model does not have, f32[4]")
                    .hasMessageContaining("\"2.weight\" that the model does not have, f32[2, 4]");
            other.save(file);
            assertThatThrownBy(() -> saved.load(file)).isInstanceOf(CheckpointException.class)
                    .hasMessageContaining("has no tensor \"1.running_mean\", but the model needs f32[4]")
                    .hasMessageContaining("has no tensor \"2.weight\", but the model needs f32[2, 4]");
        }
    }

    @Test
    void changesNothingIfTheFileEndsEarly() throws IOException {
        Path file = directory.resolve("model.safetensors");
        try (Sequential saved = model(1, 4); Sequential loaded = model(2, 4)) {
            saved.save(file);
            byte[] bytes = Files.readAllBytes(file);
            float[] before = compute(loaded);
            try (SafeTensors opened = SafeTensors.open(file)) {
                // The file shrinks after its header was read, so that one of its tensors cannot be read.
                Files.write(file, Arrays.copyOf(bytes, bytes.length - 4));
                assertThatThrownBy(() -> opened.into(loaded.state())).isInstanceOf(CheckpointException.class);
            }
            assertThat(compute(loaded)).isEqualTo(before);
            assertThatThrownBy(() -> loaded.load(file)).isInstanceOf(CheckpointException.class);
            assertThat(compute(loaded)).isEqualTo(before);
        }
    }

    @Test
    void refusesMetadataOfAnotherKind() {
        Path file = directory.resolve("model.safetensors");
        try (Sequential saved = model(1, 4)) {
            for (Map<String, String> wrong : List.of(Map.of("model.classes", "cat"),
                    Map.of("model.inputs", "[\"f33[2]\"]"), Map.of("model.metric.loss", "low"))) {
                SafeTensors.write(file, saved.state(), wrong);
                assertThatThrownBy(() -> ModelFile.metadata(file)).isInstanceOf(CheckpointException.class)
                        .hasMessageContaining("malformed metadata");
            }
            SafeTensors.write(file, saved.state(), Map.of("format", "pt"));
            assertThat(ModelFile.metadata(file)).isEqualTo(ModelMetadata.none());
        }
    }
}
