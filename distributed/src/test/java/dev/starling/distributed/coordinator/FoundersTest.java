package dev.starling.distributed.coordinator;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Set;
import org.junit.jupiter.api.Test;

class FoundersTest {
    @Test
    void namesMissingRanks() {
        Founders founders = new Founders(4);
        assertThat(founders.describeMissing(Set.of(0, 2), 2)).isEqualTo(
                "2 of 4 processes have joined; missing: rank 1, rank 3");
        founders.onEnded(3, "killed");
        assertThat(founders.describeMissing(Set.of(0, 2), 2)).endsWith("missing: rank 1, rank 3 (killed)");
        assertThat(founders.expected()).isEqualTo(3);
        founders.onJoined(3);
        assertThat(founders.expected()).isEqualTo(4);
    }

    @Test
    void namesTheFirstOfManyMissingRanks() {
        assertThat(new Founders(20).describeMissing(Set.of(0), 1)).endsWith("rank 8 and 11 more");
    }

    @Test
    void countsProcessesWithoutARank() {
        Founders founders = new Founders(3);
        assertThat(founders.describeMissing(Set.of(-1), 2)).isEqualTo(
                "2 of 3 processes have joined; missing: 1 without a rank of their own");
        founders.onEnded(-1, "killed");
        assertThat(founders.expected()).isEqualTo(2);
        founders.onJoined(-1);
        assertThat(founders.expected()).isEqualTo(3);
    }

    @Test
    void ignoresRanksThatItDoesNotExpect() {
        Founders founders = new Founders(2);
        founders.onEnded(7, "killed");
        founders.onJoined(-1);
        assertThat(founders.expected()).isEqualTo(2);
    }
}
