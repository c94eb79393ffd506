"""The names of Redisson's settings: those that are used here, and those without effect.

They are the names of Redisson 4.7, and those that releases since 3.27 had and 4.7 dropped.
"""

from __future__ import annotations

__all__ = ["IN_SECTION", "SECTIONS", "TAKEN_AT_TOP", "WITHOUT_EFFECT_AT_TOP"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SECTIONS = (
    "singleServerConfig",
    "masterSlaveServersConfig",
    "sentinelServersConfig",
    "clusterServersConfig",
    "replicatedServersConfig",
)

#: Used in every section. Those of TLS, and the classes, are checked.
_TAKEN = _names("""
    clientName commandMapper credentialsResolver database nameMapper password sslCiphers
    sslEnableEndpointIdentification sslKeyManagerFactory sslKeystore sslKeystorePassword
    sslProtocols sslTrustManagerFactory sslTruststore sslVerificationMode username
""")

TAKEN_AT_TOP = _TAKEN | _names("""
    checkLockSyncedSlaves fairLockWaitTimeout lockWatchdogTimeout slavesSyncTimeout
""")

_WITHOUT_EFFECT = _names("""
    sslKeystoreType sslProvider sslTruststorePassword tcpKeepAliveCount tcpKeepAliveIdle
    tcpKeepAliveInterval tcpNoDelay tcpUserTimeout
""")

WITHOUT_EFFECT_AT_TOP = _WITHOUT_EFFECT | _names("""
    addressResolverGroupFactory cleanUpKeysAmount codec connectionListener eventLoopGroup executor
    keepPubSubOrder lazyInitialization lockWatchdogBatchSize maxCleanUpDelay minCleanUpDelay
    nettyExecutor nettyHook nettyThreads protocol referenceEnabled registrationKey
    reliableTopicWatchdogTimeout tcpKeepAlive threads transportMode useScriptCache
    useThreadClassLoader valkeyCapabilities
""")

_WITHOUT_EFFECT_IN_SECTION = _WITHOUT_EFFECT | _names("""
    connectTimeout idleConnectionTimeout keepAlive pingConnectionInterval reconnectionDelay
    retryAttempts retryDelay retryInterval subscriptionTimeout subscriptionsPerConnection timeout
""")

_OF_SINGLE = _names("""
    connectionMinimumIdleSize connectionPoolSize dnsMonitoringInterval dnsMonitoringTimes
    subscriptionConnectionMinimumIdleSize subscriptionConnectionPoolSize
""")

_OF_REPLICAS = _names("""
    dnsMonitoringInterval dnsMonitoringTimes failedSlaveCheckInterval failedSlaveNodeDetector
    failedSlaveReconnectionInterval fallbackLoadingToMaster loadBalancer
    masterConnectionMinimumIdleSize masterConnectionPoolSize readMode
    slaveConnectionMinimumIdleSize slaveConnectionPoolSize subscriptionConnectionMinimumIdleSize
    subscriptionConnectionPoolSize subscriptionMode
""")

#: The names that are used in a section, and those that have no effect in it.
IN_SECTION: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "singleServerConfig": (_TAKEN | {"address"}, _WITHOUT_EFFECT_IN_SECTION | _OF_SINGLE),
    "masterSlaveServersConfig": (
        _TAKEN | {"masterAddress"},
        _WITHOUT_EFFECT_IN_SECTION | _OF_REPLICAS | {"slaveAddresses"},
    ),
    "sentinelServersConfig": (
        _TAKEN
        | _names("masterName natMap natMapper sentinelAddresses sentinelPassword sentinelUsername"),
        _WITHOUT_EFFECT_IN_SECTION
        | _OF_REPLICAS
        | _names("checkSentinelsList checkSlaveStatusWithSyncing scanInterval sentinelsDiscovery"),
    ),
    "clusterServersConfig": (
        _TAKEN | _names("natMap natMapper nodeAddresses shardedSubscriptionMode"),
        _WITHOUT_EFFECT_IN_SECTION
        | _OF_REPLICAS
        | _names("checkMasterLinkStatus checkSlotsCoverage scanInterval"),
    ),
    "replicatedServersConfig": (
        _TAKEN | _names("natMapper nodeAddresses"),
        _WITHOUT_EFFECT_IN_SECTION | _OF_REPLICAS | _names("monitorIPChanges scanInterval"),
    ),
}
