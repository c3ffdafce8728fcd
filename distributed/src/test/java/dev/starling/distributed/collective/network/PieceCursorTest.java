package dev.starling.distributed.collective.network;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A ring whose ranks progress in any order: pieces arrive in the expected order, and none is sent before it arrives.
 */
class PieceCursorTest {
    private static final int PIECE = 128;
    private static final int REMAINDER = 64;

    /** A piece in flight. */
    private record Piece(int step, long offset, long length) { }

    /** One rank: its cursors, and the pieces that have arrived. */
    private static final class Rank {
        final PieceCursor sending = new PieceCursor(REMAINDER);
        final PieceCursor receiving = new PieceCursor(REMAINDER);
        final Queue<Piece> inbox = new ArrayDeque<>();
        final Set<Piece> seen = new HashSet<>();
    }

    private static Piece next(PieceCursor cursor) {
        return new Piece(cursor.step(), cursor.offset(), cursor.length());
    }

    @ParameterizedTest
    @CsvSource({
        "2, 64, false, 1, true", "2, 10000, false, 1, true", "3, 10000, false, 1, true", "4, 8192, true, 1, true",
        "5, 7777, false, 3, true", "4, 100, false, 1, true", "3, 9000, true, 2, false", "4, 10000, false, 2, false",
        "4, 10000, false, 1000000, false", "5, 700, false, 2, true"})
    void iteratesInTheSameOrderOnAllRanks(int world, long bytes, boolean equal, int segment, boolean overlap) {
        int steps = 2 * (world - 1);
        List<Rank> ranks = new ArrayList<>();
        for (int rank = 0; rank < world; rank++) {
            Rank one = new Rank();
            one.sending.begin(bytes, world, equal, rank, 0, steps, PIECE, segment, overlap);
            one.receiving.begin(bytes, world, equal, rank - 1, 0, steps, PIECE, segment, overlap);
            ranks.add(one);
        }
        Random random = new Random(bytes + world);
        for (int idle = 0; idle < 1000; idle++) {
            int at = random.nextInt(world);
            Rank rank = ranks.get(at);
            Rank successor = ranks.get((at + 1) % world);
            if (random.nextBoolean() && !rank.sending.isAtEnd()
                    && (rank.sending.step() == 0 || rank.receiving.isPast(rank.sending))) {
                Piece piece = next(rank.sending);
                assertThat(piece.step() == 0 || rank.seen.contains(
                        new Piece(piece.step() - 1, piece.offset(), piece.length()))).as("%s was here", piece).isTrue();
                successor.inbox.add(piece);
                boolean last = rank.sending.isLast();
                rank.sending.next();
                assertThat(rank.sending.isAtEnd()).isEqualTo(last);
                idle = 0;
            } else if (!rank.inbox.isEmpty()) {
                assertThat(rank.inbox.peek()).isEqualTo(next(rank.receiving));
                assertThat(rank.seen.add(rank.inbox.remove())).isTrue();
                rank.receiving.next();
                idle = 0;
            }
        }
        for (int rank = 0; rank < world; rank++) {
            Rank one = ranks.get(rank);
            assertThat(one.sending.isAtEnd()).isTrue();
            assertThat(one.receiving.isAtEnd()).isTrue();
            for (int step = 0; step < steps; step++) {
                int now = step;
                long chunks = one.seen.stream().filter(p -> p.step() == now).mapToLong(Piece::length).sum();
                assertThat(chunks).as("bytes of step %d", step).isEqualTo(length(bytes, world, equal, rank - 1 - step));
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"0, ''", "1, 1", "128, 128", "192, 192", "193, '128, 65'", "256, '128, 128'", "320, '128, 192'",
        "321, '128, 128, 65'"})
    void addsAShortRemainderToTheLastPiece(long bytes, String lengths) {
        PieceCursor cursor = new PieceCursor(REMAINDER);
        cursor.begin(bytes, 1, true, 0, 0, 1, PIECE, 1, false);
        List<String> actual = new ArrayList<>();
        long end = 0;
        for (; !cursor.isAtEnd(); cursor.next()) {
            assertThat(cursor.offset()).isEqualTo(end);
            end += cursor.length();
            actual.add(String.valueOf(cursor.length()));
        }
        assertThat(String.join(", ", actual)).isEqualTo(lengths);
        assertThat(end).isEqualTo(bytes);
    }

    private static long length(long bytes, int world, boolean equal, int chunk) {
        long lines = (bytes + 63) / 64;
        int number = Math.floorMod(chunk, world);
        return equal ? bytes / world : Math.min(bytes, lines * (number + 1) / world * 64) - lines * number / world * 64;
    }
}
