"""MemFabric's transfers alone. See memfabric_hybrid, which has the same and more."""

from memfabric_hybrid import TransferEngine, create_config_store, set_conf_store_tls, set_log_level

__all__ = ["TransferEngine", "set_log_level", "create_config_store", "set_conf_store_tls"]
