package dev.starling.distributed;

/**
 * A process of a group.
 *
 * @param id unique during the lifetime of the group
 * @param rank number in the present epoch, from 0 without gaps
 * @param preferredRank the rank that it requested when it joined; -1 for any
 * @param address of its transport
 * @param host identity of its host: processes with equal texts can map each other's memory
 * @param role what it does in the group
 */
public record Member(long id, int rank, int preferredRank, String address, String host, Role role) {
    /** Returns whether the member is a server of parameters. */
    public boolean isServer() {
        return role instanceof Role.Server;
    }
}
