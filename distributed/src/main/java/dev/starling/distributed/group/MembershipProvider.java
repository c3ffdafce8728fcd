package dev.starling.distributed.group;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.GroupProvider;
import dev.starling.transport.Transport;
import java.util.function.Consumer;

/** Joins groups by {@link Membership}. */
public final class MembershipProvider implements GroupProvider {
    /** Creates the provider, as {@link java.util.ServiceLoader} does. */
    public MembershipProvider() { }

    @Override
    public Group join(Transport transport, GroupConfig config, boolean background, Consumer<Group> onCreated) {
        return Membership.join(transport, config, background, onCreated);
    }
}
