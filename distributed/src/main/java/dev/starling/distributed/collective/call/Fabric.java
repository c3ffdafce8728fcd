package dev.starling.distributed.collective.call;

import dev.starling.distributed.View;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/**
 * A group or sub-group in one epoch, as the collectives see it.
 *
 * @param epoch a positive number that distinguishes these collectives from others between the same ranks
 * @param rank of this process
 * @param isMesh whether every rank has a connection to every other; the same for all ranks
 * @param partners the ranks to which this one {@linkplain Partners needs} a connection
 * @param links returns the connection to the member with an id; opens one if there is none, and returns {@code null}
 *     until then
 */
public record Fabric(long epoch, View view, int rank, boolean isMesh, int[] partners,
        LongFunction<@Nullable Endpoint> links, Transport transport) {
    /** Returns the number of ranks. */
    public int world() {
        return view.world();
    }

    /** Returns the connection to a rank, or {@code null} while it is being opened. */
    public @Nullable Endpoint endpoint(int of) {
        return links.apply(view.members().get(of).id());
    }

    /** Returns the identity of a rank's host: ranks with equal texts may map each other's memory. */
    public String host(int of) {
        return view.members().get(of).host();
    }
}
