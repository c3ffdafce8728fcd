package dev.starling.distributed.collective.network;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.group.Control;
import java.util.List;
import org.junit.jupiter.api.Test;

class ProtocolTest {
    /** Ranks that divide data differently would overwrite each other's sums, so one of them must be refused. */
    @Test
    void incrementsWithTheDivisionOfData() {
        assertThat(List.of(Control.PROTOCOL, Ring.PIECE, Ring.REMAINDER, Ring.SLOTS, Ring.SEGMENT,
                HalvingDoubling.MAX_BYTES, SmallGather.MAX_PAYLOAD))
                .as("increment Control.PROTOCOL if another number changes")
                .containsExactly(4, 390_528, 8192, 4, 2, 262_144, 24_576);
    }
}
