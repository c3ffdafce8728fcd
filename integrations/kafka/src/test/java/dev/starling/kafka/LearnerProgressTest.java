package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.junit.jupiter.api.Test;

class LearnerProgressTest {
    private static Map<String, String> saved(String topicId) {
        LearnerProgress progress = new LearnerProgress("labelled", topicId);
        progress.trained = 7;
        Map<String, String> notes = new LinkedHashMap<>();
        progress.save(notes);
        return notes;
    }

    /** Brokers before 2.8 report the same id, of zeros, for all topics, and brokers that replace them a real one. */
    @Test
    void resumesWhenBrokersBeginToGiveTopicsIds() {
        LearnerProgress progress = new LearnerProgress("labelled", Uuid.randomUuid().toString());
        progress.restore(saved(Uuid.ZERO_UUID.toString()));
        assertThat(progress.trained).isEqualTo(7);
        assertThatThrownBy(() -> progress.restore(saved(Uuid.randomUuid().toString())))
                .isInstanceOf(StreamException.class).hasMessageContaining("it was created again");
    }
}
