package dev.starling.cuda.memory;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class LastUsedTest {
    @Test
    void givesUpWhatWasUsedLongestAgo() {
        LastUsed<Integer, String> map = new LastUsed<>(3, value -> true);
        for (int i = 0; i < 3; i++) {
            map.put(i, "value " + i);
            assertThat(map.overdue()).isEmpty();
        }
        assertThat(map.get(0)).isEqualTo("value 0");
        map.put(3, "value 3");
        assertThat(map.overdue()).containsExactly("value 1");
        assertThat(map.get(1)).isNull();
        assertThat(map.get(0)).isEqualTo("value 0");
    }

    @Test
    void givesUpSeveralAtOnce() {
        LastUsed<Integer, Integer> map = new LastUsed<>(17, value -> true);
        List<Integer> gone = new ArrayList<>();
        for (int i = 0; i < 18; i++) {
            map.put(i, i);
            gone.addAll(map.overdue());
        }
        assertThat(gone).containsExactly(0, 1, 2);
        assertThat(map.size()).isEqualTo(15);
    }

    @Test
    void keepsWhatMayNotGoAndTheLast() {
        LastUsed<Integer, Integer> map = new LastUsed<>(1, value -> value > 1);
        map.put(1, 1);
        map.put(2, 2);
        assertThat(map.overdue()).as("one may not go, the other was used last").isEmpty();
        map.put(3, 3);
        assertThat(map.overdue()).containsExactly(2);
        assertThat(map.get(1)).isEqualTo(1);
    }
}
