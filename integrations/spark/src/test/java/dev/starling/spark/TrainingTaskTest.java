package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.checkpoint.CheckpointException;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class TrainingTaskTest {
    @Test
    void allowsAnotherAttemptAfterAFailureOfFilesOnly() {
        CheckpointException full = new CheckpointException(Path.of("checkpoints"), "cannot be written",
                "free some space", new IOException("No space left on device"));
        assertThat(TrainingTask.failure(1, full)).isSameAs(full);
        CheckpointException other = new CheckpointException(Path.of("step-1.json"), "is of another model",
                "choose another directory", null);
        assertThat(TrainingTask.failure(1, other)).isInstanceOf(SparkDataException.class)
                .hasMessage("rank 1: step-1.json: is of another model; choose another directory");
    }
}
