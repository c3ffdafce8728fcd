package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.checkpoint.Sha256;
import dev.starling.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Loading, replacing and closing models, without a broker. */
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
        ServedModel batch = live.acquire();
        live.swap(served(second, 2));
        assertThat(first).as("a batch is in progress").hasValue(0);
        batch.release();
        assertThat(first).hasValue(1);
        live.close();
        assertThat(second).hasValue(1);
        assertThat(live.acquire()).isNull();
        // A file that was still being read at close().
        live.swap(served(late, 3));
        assertThat(late).hasValue(1);
        assertThat(live.acquire()).isNull();
    }

    /** Accepts only single rows. */
    private static final class OneRow implements Layer {
        @Override
        public Tensor forward(Tensor input) {
            return input.reshape(1, 4);
        }
    }

    @Test
    void refusesAModelOfSingleRows() throws IOException {
        byte[] file = SafeTensors.bytes(Map.of(), Map.of());
        Path path = Files.write(directory.resolve("one.safetensors"), file);
        ModelLoader loader = new ModelLoader(ModelTopic.of("models", "m").factory(OneRow::new), 4);
        assertThatThrownBy(() -> loader.load(new ModelVersion("m", 1, path.toString(),
                Sha256.of(file))))
                .isInstanceOf(StreamException.class).hasMessageContaining("m version 1 failed on 2 rows of 4 numbers");
    }

    @Test
    void refusesNamesThatCannotBeginTheNameOfAFile() {
        for (String name : List.of("", " ", "team/fraud", "team\\fraud", "..")) {
            assertThatThrownBy(() -> ModelPublisher.requireFileName(name)).isInstanceOf(StreamException.class)
                    .hasMessageContaining("got \"" + name + "\"");
        }
        ModelPublisher.requireFileName("fraud-2.1");
    }

    @Test
    void refusesFilesThatAreNone() {
        assertThatThrownBy(() -> ModelStore.files().read(directory.toString())).isInstanceOf(IOException.class)
                .hasMessageContaining("must be a regular file");
        assertThatThrownBy(() -> ModelStore.files().read("/dev/zero")).isInstanceOf(IOException.class);
    }
}
