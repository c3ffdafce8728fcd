package dev.starling.distributed;

import dev.starling.transport.Transport;
import java.util.function.Consumer;

/**
 * Joins groups for {@link Group#join}. This module has the only implementation. It is found as a service, so that the
 * package of values and interfaces does not depend on those that use them.
 */
public interface GroupProvider {
    /**
     * Joins a group over a transport, which the group then owns, and waits until it is complete.
     *
     * @param background whether the group has a background thread that works while no caller waits
     * @param onCreated gets the group before it is complete
     */
    Group join(Transport transport, GroupConfig config, boolean background, Consumer<Group> onCreated);
}
