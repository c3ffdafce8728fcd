package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class ChannelsTest {
    @Test
    void keepsHalfOfTheNumbersForUsers() {
        assertThat(IntStream.range(0, 8).map(Channels::ofUser)).containsExactly(8, 9, 10, 11, 12, 13, 14, 15)
                .allMatch(channel -> channel < Channels.COUNT);
        for (int i : new int[] {-1, 8}) {
            assertThatThrownBy(() -> Channels.ofUser(i)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("0 <= i < 8");
        }
    }
}
