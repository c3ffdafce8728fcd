package dev.starling.distributed.collective.call;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Member;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class PartnersTest {
    private static View view(int world, int perHost, int servers) {
        return new View(1, IntStream.range(0, world).mapToObj(rank -> new Member(100 + rank, rank, rank,
                "at" + rank, "host" + rank / perHost, rank < world - servers ? new Role.Worker()
                : new Role.Server(rank - world + servers))).toList());
    }

    private static List<Integer> partners(View view, int rank) {
        return Arrays.stream(Partners.of(view, rank, 8)).boxed().toList();
    }

    @Test
    void areAllOthersInASmallGroup() {
        assertThat(partners(view(8, 1, 0), 3)).containsExactly(0, 1, 2, 4, 5, 6, 7);
    }

    @Test
    void areAFewInALargeGroup() {
        assertThat(partners(view(1024, 1, 0), 0)).containsExactly(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 896, 960,
                992, 1008, 1016, 1020, 1022, 1023);
        View view = view(1000, 1, 0);
        for (int rank = 0; rank < 1000; rank++) {
            assertThat(partners(view, rank)).hasSizeLessThanOrEqualTo(30);
        }
    }

    @Test
    void needEachOther() {
        for (int world : new int[] {9, 16, 33, 100, 127}) {
            View view = view(world, 3, 2);
            for (int rank = 0; rank < world; rank++) {
                assertThat(partners(view, rank)).doesNotContain(rank).doesNotHaveDuplicates();
                for (int partner : partners(view, rank)) {
                    assertThat(partners(view, partner)).as("of %s", partner).contains(rank);
                }
            }
        }
    }

    @Test
    void includeAHostAndTheNeighboursOfItsFirstRank() {
        assertThat(partners(view(100, 20, 0), 20)).contains(21, 30, 39).contains(0, 40);
        assertThat(partners(view(100, 20, 0), 0)).contains(20, 80);
        assertThat(partners(view(100, 20, 0), 25)).contains(20, 39).doesNotContain(0, 60);
    }

    @Test
    void ofAWorkerAreAllServers() {
        assertThat(partners(view(100, 1, 3), 50)).contains(97, 98, 99);
        assertThat(partners(view(100, 1, 3), 98)).hasSizeGreaterThanOrEqualTo(97);
    }

    @Test
    void exchangeHalvesInPairs() {
        for (int world : new int[] {9, 12, 16, 31}) {
            for (int index = 0; index < Integer.highestOneBit(world); index++) {
                assertThat(Partners.halvingIndex(Partners.halvingRank(index, world), world)).isEqualTo(index);
            }
        }
    }
}
