package dev.starling.distributed;

import dev.starling.transport.Transport;
import java.time.Duration;
import java.util.ServiceLoader;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The processes that train together, as one of them sees them. A membership epoch is the time between two changes of
 * the members; in each, the members have ranks from 0 without gaps. When a member is lost, all pending collectives fail
 * with a {@link PeerLostException} on every rank. If the coordinator re-forms the group, the members then call
 * {@link #reform} to continue. Ranks and their number then change with the members, also between two calls: what was
 * read between two equal numbers of {@link #epoch} belongs together.
 *
 * <pre>{@code
 * try (Group group = Group.join(GroupConfig.of(TransportConfig.of("aeron", secret), coordinator))) {
 *     group.collectives().barrier().await(Duration.ofSeconds(10));
 * }
 * }</pre>
 *
 * <p>Safe for use by several threads, except that all ranks must start collectives in the same order.
 */
public interface Group extends AutoCloseable {
    /**
     * Joins a group, and waits until it is complete.
     *
     * @throws DistributedException if the group is not complete in time, or refuses this process
     * @throws dev.starling.transport.TransportException if the transport cannot be opened
     */
    static Group join(GroupConfig config) {
        return join(config, _ -> { });
    }

    /** As {@link #join(GroupConfig)}; {@code onCreated} gets the group before it is complete, to {@link #abort} it. */
    static Group join(GroupConfig config, Consumer<Group> onCreated) {
        return provider().join(Transport.open(config.transport()), config, true, onCreated);
    }

    /**
     * Joins a group over a transport, which the group then owns.
     *
     * @param background whether the group has a background thread that works while no caller waits; without it, as in a
     *     simulation, callers that compute for long must call {@link #doWork} regularly
     */
    static Group join(Transport transport, GroupConfig config, boolean background) {
        return provider().join(transport, config, background, _ -> { });
    }

    private static GroupProvider provider() {
        return ServiceLoader.load(GroupProvider.class, Group.class.getClassLoader()).findFirst()
                .orElseThrow(() -> new DistributedException("no " + GroupProvider.class.getName()
                        + " is registered; keep META-INF/services when you merge jars"));
    }

    /** Returns the configuration with which this process joined. */
    GroupConfig config();

    /** Returns this process's rank in the present epoch, from 0. */
    int rank();

    /** Returns the number of members in the present epoch. */
    int world();

    /** Returns the number of the present epoch, from 1. */
    long epoch();

    /** Returns the members of the present epoch. */
    View view();

    /** Returns the collectives of the present epoch. */
    Collectives collectives();

    /**
     * Returns the sub-group of the members of the present epoch that have the same colour as this process, with ranks
     * and collectives of its own: {@code group.split(Member::isServer)} separates workers and servers,
     * {@code group.split(Member::host)} the hosts. Sub-groups compute at the same time, independently of each other
     * and of the group. The members of a sub-group must split equally often; no messages are exchanged.
     *
     * <p>A sub-group continues whatever happens to other members. Its epoch ends, with the exceptions that the group
     * has, when one of its own members is lost, or when a process of the same colour joins; {@link #reform} on the
     * sub-group then waits for the group's next epoch and continues with its members of this colour. Exceptions number
     * lost members as the whole group does. The group closes its sub-groups. Strategies need a whole group.
     *
     * @param colour equal for members of the same sub-group; a function of what all members know of a {@link Member}
     * @throws DistributedException if the present epoch has ended
     */
    Group split(Function<Member, ?> colour);

    /** Does some of the group's work, unless another thread is doing it; returns the amount of work done. */
    int doWork();

    /**
     * Waits for the next epoch after one has ended.
     *
     * @throws DistributedException if none follows: the coordinator ended the group, or is lost
     */
    void reform(Duration atMost);

    /** Ends the group for this process immediately: threads that wait here throw, with this reason. Any thread. */
    void abort(String reason);

    /** Leaves the group. The others continue without this process; if a loss is the reason, it sends them that loss. */
    @Override
    void close();
}
