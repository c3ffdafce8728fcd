package dev.starling.cuda.memory;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class LruMapTest {
    @Test
    void evictsTheLeastRecentlyUsed() {
        LruMap<Integer, String> map = new LruMap<>(3, value -> true);
        for (int i = 0; i < 3; i++) {
            map.put(i, "value " + i);
            assertThat(map.evict()).isEmpty();
        }
        assertThat(map.get(0)).isEqualTo("value 0");
        map.put(3, "value 3");
        assertThat(map.evict()).containsExactly("value 1");
        assertThat(map.get(1)).isNull();
        assertThat(map.get(0)).isEqualTo("value 0");
    }

    @Test
    void evictsSeveralTogether() {
        LruMap<Integer, Integer> map = new LruMap<>(17, value -> true);
        List<Integer> evicted = new ArrayList<>();
        for (int i = 0; i < 18; i++) {
            map.put(i, i);
            evicted.addAll(map.evict());
        }
        assertThat(evicted).containsExactly(0, 1, 2);
        assertThat(map.size()).isEqualTo(15);
    }

    @Test
    void keepsWhatIsNotRemovableAndTheLast() {
        LruMap<Integer, Integer> map = new LruMap<>(1, value -> value > 1);
        map.put(1, 1);
        map.put(2, 2);
        assertThat(map.evict()).as("one may not go, the other was used last").isEmpty();
        map.put(3, 3);
        assertThat(map.evict()).containsExactly(2);
        assertThat(map.get(1)).isEqualTo(1);
    }
}
