package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What happens to models without a broker: loading, swapping, closing. */
class ModelSwapTest {
    @TempDir
    Path directory;

    /** A model that counts how often it is closed. */
    private record Closing(AtomicInteger closed) implements Layer {
        @Override
        public Tensor forward(Tensor input) {
            return input;
        }

        @Override
        public void close() {
            closed.incrementAndGet();
        }
    }

    private static ServedModel served(AtomicInteger closed, long version) {
        return new ServedModel(new Closing(closed), new ModelVersion("m", version, "file", "0".repeat(64)));
    }

    @Test
    void closesEachModelOnceAfterItsLastBatch() {
        AtomicInteger first = new AtomicInteger();
        AtomicInteger second = new AtomicInteger();
        AtomicInteger late = new AtomicInteger();
        LiveModel live = new LiveModel();
        live.swap(served(first, 1));
        ServedModel batch = live.hold();
        live.swap(served(second, 2));
        assertThat(first).as("a batch is under way").hasValue(0);
        batch.drop();
        assertThat(first).hasValue(1);
        live.close();
        assertThat(second).hasValue(1);
        assertThat(live.hold()).isNull();
        // A file that was being read when all closed.
        live.swap(served(late, 3));
        assertThat(late).hasValue(1);
        assertThat(live.hold()).isNull();
    }

    /** Takes one row at a time, as a model that was made for single records. */
    private static final class OneRow implements Layer {
        @Override
        public Tensor forward(Tensor input) {
            return input.reshape(1, 4);
        }
    }

    @Test
    void refusesAModelThatTakesOneRowAtATime() throws IOException {
        byte[] file = SafeTensors.bytes(Map.of(), Map.of());
        Path path = Files.write(directory.resolve("one.safetensors"), file);
        ModelLoader loader = new ModelLoader(ModelTopic.of("models", "m").factory(OneRow::new), 4);
        assertThatThrownBy(() -> loader.load(ModelVersion.of("m", 1, path.toString(), file)))
                .isInstanceOf(StreamException.class).hasMessageContaining("m version 1 failed on 2 rows of 4 numbers");
    }

    @Test
    void refusesFilesThatAreNone() {
        assertThatThrownBy(() -> ModelStore.files().read(directory.toString())).isInstanceOf(IOException.class)
                .hasMessageContaining("must be a regular file");
        assertThatThrownBy(() -> ModelStore.files().read("/dev/zero")).isInstanceOf(IOException.class);
    }
}
