package dev.starling.distributed.collective.call;

import dev.starling.distributed.Member;
import dev.starling.distributed.View;
import java.util.BitSet;
import java.util.HashSet;
import java.util.Set;

/**
 * Which other ranks a rank needs a connection to. In a small group these are all; in a large one those with which the
 * collectives of this rank exchange messages, some 2 log₂ of the number of ranks:
 *
 * <ul>
 * <li>its neighbours on the ring of all ranks,
 * <li>the ranks of its own host, which share memory,
 * <li>if it is the first rank of its host, its neighbours on the ring of all hosts' first ranks,
 * <li>the ranks at a distance of a power of two, for gathers, barriers and exchanges,
 * <li>the ranks with which it exchanges halves,
 * <li>the servers if it is a worker, and the workers if it is a server.
 * </ul>
 *
 * <p>Of two ranks, either both need the other or none does. Connections to further ranks are opened when they are used.
 */
public final class Partners {
    private Partners() { }

    /**
     * Returns the ranks that a rank needs, in order.
     *
     * @param maxMesh number of members up to which these are all others
     */
    public static int[] of(View view, int rank, int maxMesh) {
        int world = view.world();
        BitSet needed = new BitSet(world);
        if (world <= maxMesh) {
            needed.set(0, world);
        } else {
            addNeighbours(needed, rank, world);
            addHalving(needed, rank, world);
            addByHost(needed, view, rank);
            addByRole(needed, view, rank);
        }
        needed.clear(rank);
        return needed.stream().toArray();
    }

    /** Adds the ranks at a distance of a power of two, on both sides; those at a distance of one are a ring's. */
    private static void addNeighbours(BitSet to, int rank, int world) {
        for (int distance = 1; distance < world; distance *= 2) {
            to.set((rank + distance) % world);
            to.set(Math.floorMod(rank - distance, world));
        }
    }

    /** Adds the partners of a rank that exchanges halves, whether the number of ranks is a power of two or not. */
    private static void addHalving(BitSet to, int rank, int world) {
        int index = halvingIndex(rank, world);
        int folded = world - Integer.highestOneBit(world);
        if (rank < 2 * folded) {
            to.set(rank ^ 1);
        }
        for (int distance = 1; index >= 0 && distance < Integer.highestOneBit(world); distance *= 2) {
            to.set(halvingRank(index ^ distance, world));
        }
    }

    /**
     * Returns a rank's number among those that exchange halves, which are a power of two; -1 if its neighbour takes
     * part in its place.
     */
    public static int halvingIndex(int rank, int world) {
        int folded = world - Integer.highestOneBit(world);
        return rank >= 2 * folded ? rank - folded : rank % 2 == 1 ? rank / 2 : -1;
    }

    /** Returns the rank that has a number among those that exchange halves. */
    public static int halvingRank(int index, int world) {
        int folded = world - Integer.highestOneBit(world);
        return index < folded ? 2 * index + 1 : index + folded;
    }

    private static void addByHost(BitSet to, View view, int rank) {
        String own = view.members().get(rank).host();
        BitSet firsts = new BitSet();
        Set<String> hosts = new HashSet<>();
        for (Member member : view.members()) {
            if (member.host().equals(own)) {
                to.set(member.rank());
            }
            if (hosts.add(member.host())) {
                firsts.set(member.rank());
            }
        }
        if (firsts.get(rank)) {
            int next = firsts.nextSetBit(rank + 1);
            int last = rank == 0 ? -1 : firsts.previousSetBit(rank - 1);
            to.set(next < 0 ? firsts.nextSetBit(0) : next);
            to.set(last < 0 ? firsts.length() - 1 : last);
        }
    }

    private static void addByRole(BitSet to, View view, int rank) {
        boolean server = view.members().get(rank).isServer();
        for (Member member : view.members()) {
            if (member.isServer() != server) {
                to.set(member.rank());
            }
        }
    }
}
